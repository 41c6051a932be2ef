"""The API definition in OpenAPI 3.0, limited to what this installation serves."""

from mastaba_ogcapi.openapi.document import api_document

__all__ = ["api_document"]
