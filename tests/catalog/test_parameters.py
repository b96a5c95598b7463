"""What somebody asks of an experiment: values by type and range, the device, the number of processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labtui.catalog.manifest import CatalogError, Experiment, Parameter, Processes, read_experiment
from labtui.catalog.parameters import choose_device, parse, processes, resolve


@pytest.fixture
def sweep(write: Callable[..., Path]) -> Experiment:
    return read_experiment(write())


def test_values_come_in_declared_order_from_default_variant_and_user(sweep: Experiment) -> None:
    on_cpu = resolve(sweep, "", "cpu", {})
    assert list(on_cpu.items()) == [
        ("max_bytes", 1 << 26), ("rate", 1.0), ("check", True), ("note", ""), ("dtype", "float32"),
    ]  # fmt: skip
    assert resolve(sweep, "", "cuda", {})["max_bytes"] == 1 << 30
    assert resolve(sweep, "p2p_off", "cuda", {})["rate"] == 2.0
    asked = resolve(sweep, "p2p_off", "cuda", {"dtype": "bfloat16", "rate": "1.5"})
    assert (asked["rate"], asked["dtype"]) == (1.5, "bfloat16")
    assert list(asked) == list(on_cpu)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_bytes", "1024", 1024),
        ("max_bytes", " 1_000_000 ", 1_000_000),
        ("max_bytes", "16K", 16 << 10),
        ("max_bytes", "64M", 64 << 20),
        ("max_bytes", "1g", 1 << 30),
        ("max_bytes", "2MiB", 2 << 20),
        ("max_bytes", "4096B", 4096),
        ("rate", "1", 1.0),
        ("rate", "5e-1", 0.5),
        ("check", "No", False),
        ("check", "0", False),
        ("check", "false", False),
        ("check", "yes", True),
        ("check", "1", True),
        ("check", "TRUE", True),
        ("note", " kept as typed ", " kept as typed "),
        ("note", "", ""),
        ("dtype", "bfloat16", "bfloat16"),
    ],
)
def test_texts_become_values_by_type(sweep: Experiment, name: str, text: str, value: object) -> None:
    got = resolve(sweep, "", "cpu", {name: text})[name]
    assert (type(got), got) == (type(value), value)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("max_bytes", "1023", "a whole number of at least 1024 B, or a size such as 64M expected"),
        ("max_bytes", "-1", "at least 1024 B"),
        ("max_bytes", "1.5K", "a whole number"),
        ("max_bytes", "64MB", "a size such as 64M"),
        ("max_bytes", "1e6", "a whole number"),
        ("max_bytes", "", "a whole number"),
        ("max_bytes", "K", "a whole number"),
        ("max_bytes", "1__0", "a whole number"),
        ("max_bytes", "٣٠٠٠", "a whole number"),
        ("max_bytes", "9" * 5000, "a whole number"),
        ("max_bytes", "99999999T", "a whole number"),
        ("rate", "3", "a number from 0.5 to 2"),
        ("rate", "nan", "a number from 0.5 to 2"),
        ("rate", "-inf", "a number from 0.5 to 2"),
        ("rate", "1e999", "a number from 0.5 to 2"),
        ("rate", "1K", "a number from 0.5 to 2"),
        ("check", "2", "true or false"),
        ("check", "", "true or false"),
        ("note", "a\x1b[2J", "one line of text"),
        ("note", "a\udcff", "one line of text"),
        ("dtype", "float", '"float32" or "bfloat16"'),
    ],
)
def test_what_does_not_fit_is_told_with_its_range(sweep: Experiment, name: str, text: str, told: str) -> None:
    with pytest.raises(CatalogError) as error:
        resolve(sweep, "", "cpu", {name: text})
    assert str(error.value).startswith(f"{name} is ")
    assert told in str(error.value)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 200


def test_suffixes_are_for_bytes_only() -> None:
    with pytest.raises(CatalogError, match=r'^steps is "16K", a whole number of at most 50000 expected$'):
        parse(Parameter("steps", "int", 1, maximum=50000), "16K")


def test_numbers_among_choices_are_found_by_value() -> None:
    parameter = Parameter("lr", "choice", 0.1, choices=(0.1, 1))
    assert parse(parameter, "0.10") == 0.1
    assert parse(parameter, "1.0") == 1
    assert isinstance(parse(parameter, "1"), int)


def test_a_choice_is_of_its_own_type() -> None:
    parameter = Parameter("n", "choice", 1, choices=(0, 1))
    assert parameter.checked(1) == 1
    assert parameter.checked(True) is None
    assert parameter.checked(1.0) is None


def test_an_unknown_name_is_told_with_the_closest(sweep: Experiment) -> None:
    with pytest.raises(CatalogError, match=r'^sweep has no parameter "max_byte" \(closest: max_bytes; allowed: '):
        resolve(sweep, "", "cpu", {"max_byte": "1"})
    with pytest.raises(CatalogError, match=r"no variant .*closest: p2p_off"):
        resolve(sweep, "p2poff", "cpu", {})


@given(st.sampled_from(["max_bytes", "rate", "check", "note", "dtype"]), st.text(max_size=30))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_value_in_range_or_refused(sweep: Experiment, name: str, text: str) -> None:
    try:
        value = resolve(sweep, "", "cpu", {name: text})[name]
    except CatalogError as error:
        assert str(error).isprintable()
    else:
        assert sweep.parameter(name).checked(value) == value


@given(st.integers(min_value=1024, max_value=2**63 - 1), st.floats(0.5, 2), st.booleans())
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values_written_out_are_read_back(sweep: Experiment, size: int, rate: float, check: bool) -> None:
    values = resolve(sweep, "", "cpu", {"max_bytes": str(size), "rate": repr(rate), "check": str(check)})
    assert (values["max_bytes"], values["rate"], values["check"]) == (size, rate, check)


@pytest.mark.parametrize(
    ("variant", "asked", "gpus", "device"),
    [
        ("", None, 2, "cuda"),
        ("", None, 0, "cpu"),
        ("", "cpu", 2, "cpu"),
        ("", "cuda", 1, "cuda"),
        ("p2p_off", None, 1, "cuda"),
    ],
)
def test_the_device_is_cuda_where_it_can_be(
    sweep: Experiment, variant: str, asked: str | None, gpus: int, device: str
) -> None:
    assert choose_device(sweep, variant, asked, gpus) == device


@pytest.mark.parametrize(
    ("variant", "asked", "gpus", "told"),
    [
        ("", "tpu", 2, 'device is "tpu", cuda or cpu expected'),
        ("", "cuda", 0, "sweep can't run on cuda: no GPU was found"),
        ("p2p_off", "cpu", 2, "variant p2p_off of sweep runs on cuda only, not on cpu"),
        ("p2p_off", None, 0, "variant p2p_off of sweep runs on cuda only, and no GPU was found"),
    ],
)
def test_a_device_that_can_not_be_had_is_told_why(
    sweep: Experiment, variant: str, asked: str | None, gpus: int, told: str
) -> None:
    with pytest.raises(CatalogError) as error:
        choose_device(sweep, variant, asked, gpus)
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("rule", "variant", "device", "gpus", "asked", "number"),
    [
        (Processes(None, 2, 1, 8), "", "cuda", 4, None, 4),
        (Processes(None, 2, 1, 8), "", "cuda", 16, None, 8),
        (Processes(None, 2, 1, 8), "", "cpu", 4, None, 2),
        (Processes(4, 3, 1, 8), "", "cpu", 0, None, 3),
        (Processes(4, 3, 1, 8), "", "cuda", 4, None, 4),
        (Processes(None, 2, 1, 8), "four", "cpu", 0, None, 4),
        (Processes(None, 2, 1, 8), "four", "cpu", 0, 3, 3),
        (Processes(None, 2, 1, 8), "", "cuda", 4, 1, 1),
    ],
)
def test_the_number_of_processes(
    sweep: Experiment, rule: Processes, variant: str, device: str, gpus: int, asked: int | None, number: int
) -> None:
    assert processes(replace(sweep, processes=rule), variant, device, gpus, asked) == number


@pytest.mark.parametrize(
    ("rule", "variant", "device", "gpus", "asked", "told"),
    [
        (Processes(None, 2, 1, 8), "", "cpu", 0, 9, "sweep takes 1 to 8 processes, not 9"),
        (Processes(None, 2, 2, 8), "", "cpu", 0, 1, "sweep takes 2 to 8 processes, not 1"),
        (Processes(None, 2, 1, 8), "", "cpu", 0, 0, "sweep takes 1 to 8 processes, not 0"),
        (Processes(1, 1, 1, 1), "", "cpu", 0, 2, "sweep takes exactly 1 process, not 2"),
        (Processes(None, 2, 2, 8), "", "cuda", 1, None, "sweep takes 2 to 8 processes, not 1 (one for each GPU)"),
        (Processes(None, 2, 1, 8), "", "cuda", 2, 3, "3 processes of sweep on cuda need a GPU each, but 2 were found"),
        (Processes(None, 2, 1, 8), "four", "cuda", 1, None, "4 processes of sweep on cuda need a GPU each, but 1 was"),
    ],
)
def test_a_number_of_processes_that_can_not_be_is_told(
    sweep: Experiment, rule: Processes, variant: str, device: str, gpus: int, asked: int | None, told: str
) -> None:
    with pytest.raises(CatalogError) as error:
        processes(replace(sweep, processes=rule), variant, device, gpus, asked)
    assert str(error.value).startswith(told)
