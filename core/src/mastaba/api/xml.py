"""Former names of `mastaba_ows.xml` (mastaba-ows): XML documents, written and read."""

from mastaba.api._deprecated import moved_names

_PLACES = {
    "mastaba_ows.xml": "XLINK XSI Element NotXMLError add add_copy add_filled add_list local_name "
    "read record root_element serialized",
    "mastaba_ows.contact": "add_contact",
    "mastaba_ows.post": "FORM elements form_parameters read_request text_of texts",
}
__getattr__ = moved_names(__name__, _PLACES)
