"""Links in documents of OGC APIs."""

from __future__ import annotations

from mastaba_ows.links import HTML, JSON, link, self_links


def test_a_link_has_further_members_after_the_usual_ones() -> None:
    found = link("http://a/b", "data", JSON, "Data", templated=True)
    assert list(found) == ["href", "rel", "type", "title", "templated"]
    assert found["templated"] is True


def test_a_resource_links_to_itself_and_its_page() -> None:
    own, page = self_links("http://a/b", "Jobs", "limit=2&")
    assert own == link("http://a/b?limit=2&f=json", "self", JSON, "Jobs")
    assert page == link("http://a/b?limit=2&f=html", "alternate", HTML, "Jobs as a page")
