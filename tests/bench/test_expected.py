"""What predictions assume of the link, and that they say so."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

from labtui.bench import expected


def test_without_anything_known_the_assumption_is_named():
    known = expected.link("cpu")
    assert known.link == expected.ASSUMED["cpu"]
    assert known.words == "no profile of this machine: 200 us a message and 1 GB/s were assumed"
    assert expected.link("cuda").link.bytes_per_s > known.link.bytes_per_s


def test_a_profile_is_used_and_named(monkeypatch):
    monkeypatch.setenv("LABTUI_PROFILE", json.dumps({"alpha": 2e-5, "beta": 12.5, "date": "2026-11-29"}))
    known = expected.link("cuda")
    assert (known.link.latency_s, known.link.bytes_per_s, known.link.bus) == (2e-5, 12.5e9, False)
    assert known.words == "from this machine's profile: 20 us a message, 12.5 GB/s, measured 2026-11-29"
    monkeypatch.setenv("LABTUI_PROFILE", "null")
    assert "no profile" in expected.link("cuda").words


@pytest.mark.parametrize("model", ["per_rank", "bus"])
def test_a_shaped_link_wins_and_its_headers_are_taken_off(monkeypatch, model):
    monkeypatch.setenv("LABTUI_PROFILE", json.dumps({"alpha": 1, "beta": 1}))
    monkeypatch.setenv("LABTUI_LINK", json.dumps({"rate_bits": 1e9, "model": model}))
    monkeypatch.setattr(expected, "_mtu", lambda interface: {"lo": 65536, "eth0": 1500}[interface])
    large = expected.link("cpu")
    assert large.link.bus == (model == "bus")
    assert 0.998 < large.link.bytes_per_s / 125e6 < 1
    assert "1 Gbit/s" in large.words
    assert "99.9% of it payload" in large.words
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    assert expected.link("cpu").link.bytes_per_s / 125e6 == pytest.approx(1448 / 1514)  # the usual goodput of Ethernet


def test_the_packet_size_of_an_interface_is_asked_for():
    assert expected._mtu("lo") >= 1500
    assert expected._mtu("no such interface") == 1500


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fast", "LABTUI_PROFILE is 'fast', a JSON object expected"),
        ("[1]", "LABTUI_PROFILE is '[1]', a JSON object expected"),
        ('{"alpha": 1}', "LABTUI_PROFILE has beta = None, a number above 0 expected"),
        ('{"alpha": "x", "beta": 1}', "LABTUI_PROFILE has alpha = 'x', a number above 0 expected"),
    ],
)
def test_a_profile_that_is_none_ends_the_run_with_a_sentence(monkeypatch, capsys, text, sentence):
    monkeypatch.setenv("LABTUI_PROFILE", text)
    with pytest.raises(SystemExit) as leaving:
        expected.link("cpu")
    assert leaving.value.code == 2
    assert capsys.readouterr().err.strip() == sentence
