"""Pickle files: arrays and plain values are read, and nothing that a file says is run."""

import contextlib
import os
import pickle
import resource
import struct
import warnings

import numpy as np
import pytest
from hypothesis import given

from smoothcert.data import array_pickle
from smoothcert.data.array_pickle import read_array_pickle, read_arrays
from smoothcert.errors import DataError
from tests.data.pickles import Call, content, with_a_byte_changed

NAMES = ("data", "extrapolated_targets")


@pytest.fixture
def as_numpy_1(monkeypatch):
    """NumPy 2 that writes pickles under the names of NumPy 1."""
    core = np._core
    for function in (
        core.multiarray._reconstruct,
        core.multiarray.scalar,
        core.numeric._frombuffer,
    ):
        monkeypatch.setattr(
            function, "__module__", function.__module__.replace("numpy._core", "numpy.core")
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("numpy", [1, 2])
def test_pickles_of_every_protocol_and_numpy_are_read(tmp_path, request, protocol, numpy):
    if numpy == 1:
        request.getfixturevalue("as_numpy_1")
    wanted = content()
    written = pickle.dumps(wanted, protocol)
    assert (b"numpy.core" in written, b"numpy._core" in written) == (numpy == 1, numpy == 2)
    (tmp_path / "file").write_bytes(written)
    found = read_array_pickle(tmp_path / "file", NAMES)
    assert found[0].dtype == np.uint8
    assert np.array_equal(found[0], wanted["data"])
    assert np.array_equal(found[1], wanted["extrapolated_targets"])


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (np.asfortranarray(content()["data"]), content()["extrapolated_targets"].astype(np.uint8)),
        (content(40)["data"][::2], content()["extrapolated_targets"].astype(">i4")),
        (
            content()["data"].transpose(1, 2, 3, 0).copy().transpose(3, 0, 1, 2),
            content(40)["extrapolated_targets"][::2],
        ),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_layouts_and_integer_types_do_not_matter(tmp_path, images, labels, protocol):
    (tmp_path / "file").write_bytes(
        pickle.dumps({"data": images, "extrapolated_targets": labels}, protocol)
    )
    found = read_array_pickle(tmp_path / "file", NAMES)
    assert np.array_equal(found[0], images)
    assert np.array_equal(found[1], labels)


def python_2(entries):
    """A dictionary of arrays, small numbers and text as Python 2 pickles it: text and bytes are both BINSTRING."""

    def text(value):
        return b"T" + struct.pack("<i", len(value)) + value

    def array(value):
        kind = (
            b"cnumpy\ndtype\n("
            + text(value.dtype.str[1:].encode())
            + b"K\x00K\x01tR(K\x03"
            + text(b"<")
            + b"NNNtb"
        )
        shape = b"(" + b"".join(b"M" + struct.pack("<H", n) for n in value.shape) + b"t"
        empty = (
            b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + text(b"b") + b"tR"
        )
        return empty + b"(K\x01" + shape + kind + b"I00\n" + text(value.tobytes()) + b"tb"

    def pickled(value):
        if isinstance(value, list):
            return b"](" + b"".join(b"K" + bytes([number]) for number in value) + b"e"
        return array(value) if isinstance(value, np.ndarray) else text(value.encode())

    return (
        b"\x80\x02}("
        + b"".join(text(name.encode()) + pickled(value) for name, value in entries.items())
        + b"u."
    )


def test_a_pickle_of_python_2_is_read(tmp_path):
    images, labels = content(3)["data"], np.arange(3).astype("<i8")
    (tmp_path / "file").write_bytes(
        python_2({"data": images, "extrapolated_targets": labels, "about": "three"})
    )
    found = read_arrays(tmp_path / "file")
    assert np.array_equal(found["data"], images)
    assert found["extrapolated_targets"].tolist() == [0, 1, 2]
    assert found["about"] == "three"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("entry", ["data", "extrapolated_targets", "ti_index"])
@pytest.mark.parametrize("function", ["posix.system", "builtins.exec"])
def test_a_malicious_pickle_is_refused_and_runs_nothing(tmp_path, protocol, entry, function):
    trace = tmp_path / "owned"
    calls = {
        "posix.system": Call(os.system, f"touch {trace}"),
        "builtins.exec": Call(exec, f"open({str(trace)!r}, 'w').close()"),
    }
    written = pickle.dumps(content(**{entry: calls[function]}), protocol)
    (tmp_path / "file").write_bytes(written)
    name = function if protocol > 2 else function.replace("builtins", "__builtin__")
    with pytest.raises(
        DataError, match=f"a call of {name}, which no array needs, and which was not carried out"
    ):
        read_array_pickle(tmp_path / "file", NAMES)
    assert not trace.exists()
    pickle.loads(written)  # the file is what the test says it is
    assert trace.exists()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (b"", "exhausted before seeing STOP"),
        (b"no pickle at all", "unknown|needs"),
        (b"\x80\x02(ios\nsystem\n.", "operation INST"),
        (b"\x80\x02(cnumpy\ndtype\no.", "operation OBJ"),
        (b"\x80\x02cnumpy\ndtype\n)\x81.", "operation NEWOBJ"),
        (b"\x80\x02\x82\x01.", "operation EXT1"),
        (b"\x80\x04Vid\nQ.", "operation BINPERSID"),
        (b"\x80\x05\x97.", "operation NEXT_BUFFER"),
        (b"\x80\x02cnumpy\nload\n)R.", "a call of numpy.load"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.", "a call of numpy.dtype.__init__"),
        (b"\x80\x02cnumpy\nndarray\n(J\xff\xff\xff\x7ftR.", "not callable"),
        (b"\x80\x02Vtext\nVarguments\nR.", "not callable"),
        (b"\x80\x02Vtext\n)R.", "not callable"),
        (b"\x80\x02Vtext\n}b.", "state of an array for a str"),
        (b"\x80\x02}))s.", "other keys than text"),
        (b"\x80\x02]q\x00.", "no dictionary"),
        (b"\x80\x02}.", "no array data and no array extrapolated_targets"),
        (b"\x80\x02}r\xff\xff\xff\x7f.", "no array data"),  # makes the C unpickler allocate 32 GB
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**62), "MemoryError|bytes8|Overflow"),
        (b"\x80\x02h\x07.", "7"),
    ],
)
def test_whatever_no_array_needs_is_refused(tmp_path, written, message):
    (tmp_path / "file").write_bytes(written)
    with pytest.raises(DataError, match=message):
        read_array_pickle(tmp_path / "file", NAMES)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_file_cut_anywhere_is_refused(tmp_path, protocol):
    written = pickle.dumps(content(2), protocol)
    for length in [*range(0, 400, 7), len(written) // 2, len(written) - 1]:
        (tmp_path / "file").write_bytes(written[:length])
        with pytest.raises(DataError, match="Get the file again"):
            read_array_pickle(tmp_path / "file", NAMES)


@given(with_a_byte_changed())
def test_a_file_with_any_byte_changed_is_read_or_refused_but_never_crashes(
    tmp_path_factory, written
):
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(written)
    with contextlib.suppress(DataError):
        for array in read_array_pickle(path, NAMES):
            assert array.dtype.kind in "biuf"
            assert array.nbytes < len(written)


def test_a_file_of_endless_small_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(array_pickle, "MOST_OPERATIONS", 1000)
    (tmp_path / "file").write_bytes(b"\x80\x02" + 5000 * b"]")
    with pytest.raises(DataError, match="more than 1000 operations"):
        read_array_pickle(tmp_path / "file", NAMES)


def test_plain_values_and_arrays_stand_under_their_names(tmp_path):
    wanted = {
        "data": np.arange(6, dtype=np.uint8).reshape(2, 3),
        "labels": [4, 7],
        "about": "two",
        "share": 0.5,
    }
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for keys in (
            wanted,
            {name.encode(): value for name, value in wanted.items()},
        ):  # as Python 2 has them
            (tmp_path / "file").write_bytes(pickle.dumps(keys, protocol))
            found = read_arrays(tmp_path / "file")
            assert np.array_equal(found.pop("data"), wanted["data"])
            assert found == {name: value for name, value in wanted.items() if name != "data"}


def test_a_text_that_is_used_in_many_arrays_is_refused(tmp_path):
    """A megabyte in 50 arrays would be 50; from a real file, each byte is in one array."""
    kind = Call(np.dtype, "u1", False, True)
    block = "x" * 1_000_000  # one object, so that the file has it once
    many = {str(i): Filled(block, kind) for i in range(50)}
    (tmp_path / "file").write_bytes(pickle.dumps(many, 2))
    assert (tmp_path / "file").stat().st_size < 1_100_000
    with pytest.raises(DataError, match="arrays of 50000000 bytes in a file of 10"):
        read_arrays(tmp_path / "file")


class Filled:
    """Pickled, this is a one-dimensional array of the content."""

    def __init__(self, text, kind):
        self.text, self.kind = text, kind

    def __reduce__(self):
        empty = np.empty(0, np.uint8).__reduce__()
        return empty[0], empty[1], (1, (len(self.text),), self.kind, False, self.text)


@pytest.mark.parametrize("entry", [b"h\x00K\x01s", b"(h\x00K\x01u"])  # one by one, and many at once
def test_a_key_that_takes_for_ever_to_hash_is_refused(tmp_path, entry):
    """Each tuple holds the one before twice: 2^100 values."""
    tuples = b")q\x00" + 100 * b"h\x00h\x00\x86q\x00"
    (tmp_path / "file").write_bytes(b"\x80\x02}Vtuples\n](" + tuples + b"es" + entry + b".")
    with pytest.raises(DataError, match="other keys than text"):
        read_arrays(tmp_path / "file")


@pytest.mark.parametrize(
    "name", ["numpy\ndtype", "_codecs\nencode", "numpy.core.numeric\n_frombuffer"]
)
def test_a_file_cannot_change_the_functions_that_read_it(tmp_path, name):
    (tmp_path / "file").write_bytes(b"\x80\x02c" + name.encode() + b"\nN}V__defaults__\n)s\x86b.")
    with pytest.raises(DataError, match=r"the state of an array for a (function|type)"):
        read_arrays(tmp_path / "file")


def test_a_size_beyond_the_file_takes_no_memory(tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for start in (b"\x80\x05\x96", b"\x80\x04\x8e", b"\x80\x04\x8d"):  # bytearray, bytes, text
        (tmp_path / "file").write_bytes(start + struct.pack("<Q", 2**36) + b"few.")
        with pytest.raises(DataError, match="Get the file again"):
            read_arrays(tmp_path / "file")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # in kB
