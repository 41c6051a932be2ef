"""Documents that people write: read with limits, validated, with a remedy for each problem.

`mastaba_documents.reading` parses JSON and YAML, `mastaba_documents.validation` compares documents
with a JSON schema, and `mastaba_documents.faults` collects all problems, which are then reported at
once. Knows nothing of maps.
"""
