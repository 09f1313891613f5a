"""Container: known by the marks that it leaves."""

from __future__ import annotations

from pathlib import Path

from dragoman.config import container


def test_pitfall_628_a_container_is_known_by_the_marks_that_it_leaves(tmp_path: Path) -> None:
    assert not container.has_container_markers(tmp_path)
    groups = tmp_path / "proc/self/cgroup"
    groups.parent.mkdir(parents=True)
    groups.write_text("0::/user.slice/user-1000.slice\n")
    assert not container.has_container_markers(tmp_path)
    groups.write_text("12:pids:/docker/0123456789abcdef\n")
    assert container.has_container_markers(tmp_path)
    groups.unlink()
    (tmp_path / ".dockerenv").touch()
    assert container.has_container_markers(tmp_path)


def test_a_machine_that_was_made_of_an_image_is_no_container(tmp_path: Path) -> None:
    (tmp_path / ".dockerenv").touch()
    namespace = tmp_path / "proc/self/ns/pid"
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to("pid:[4026531836]")
    assert not container.has_container_markers(tmp_path)
    namespace.unlink()
    namespace.symlink_to("pid:[4026532511]")
    assert container.has_container_markers(tmp_path)
