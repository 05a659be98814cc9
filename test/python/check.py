"""What the tests share."""

import numpy


def same(got, expected, what=""):
    """Types, shapes and bits are equal."""
    got, expected = numpy.asarray(got), numpy.asarray(expected)
    assert got.dtype == expected.dtype, (what, got.dtype, expected.dtype)
    assert got.shape == expected.shape, (what, got.shape, expected.shape)
    assert got.tobytes() == expected.tobytes(), (what, got, expected)


def refused(kind, words, call, *arguments, **options):
    """The call raises an exception of this very class, whose text has the words."""
    try:
        call(*arguments, **options)
    except Exception as error:
        assert type(error) is kind, repr(error)
        assert words in str(error), str(error)
        return error
    raise AssertionError(f"{call} was not refused")
