"""What scripts of TensorFlow catch: exceptions of tutti that are TensorFlow's as well, once this module is imported."""

from __future__ import annotations

import tensorflow as tf

from .. import errors


class MismatchError(errors.MismatchError, tf.errors.FailedPreconditionError):
    """Ranks asked for different things under one name."""

    def __init__(self, text: str) -> None:
        tf.errors.FailedPreconditionError.__init__(self, None, None, text)
        errors.MismatchError.__init__(self, text)


errors.TuttiError._classes[MismatchError.status] = MismatchError
