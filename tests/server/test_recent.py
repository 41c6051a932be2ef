from mastaba_server.threads.recent import Recent


def test_what_was_used_last_is_kept() -> None:
    recent: Recent[str] = Recent(2)
    recent.add("a", "1")
    recent.add("b", "2")
    assert recent.get("a") == "1"
    recent.add("c", "3")
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == ("1", None, "3")
    assert recent.added == 3


def test_sizes_have_room_together() -> None:
    recent: Recent[str] = Recent(10, room=100)
    recent.add("a", "1", 40)
    recent.add("b", "2", 40)
    recent.add("a", "1", 60)
    assert recent.values() == ["2", "1"]
    recent.add("c", "3", 10)
    assert recent.values() == ["1", "3"]
    # What has no room at all is not kept.
    assert recent.add("d", "4", 101) == "4"
    assert recent.values() == []
    recent.add("e", "5", 100)
    assert recent.values() == ["5"]
