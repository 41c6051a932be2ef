"""The definition of the API, as OpenAPI 3.0: what this installation serves, and no more."""

from mastaba_ogcapi.openapi.document import api_document

__all__ = ["api_document"]
