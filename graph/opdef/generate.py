"""Writes ops.pb: the declarations of all of TensorFlow's ops.

Run it with a Python that has the TensorFlow whose ops are wanted (2.21 so far):

    python graph/opdef/generate.py

The file beside this one is an OpList message, sorted by op name, without the
texts for people (summaries, descriptions) but with the reasons of deprecations,
which are part of error messages. Equal TensorFlows give equal files.
"""

import pathlib

from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session


def strip(op):
    """Removes what only people read."""
    op.ClearField("summary")
    op.ClearField("description")
    for arg in [*op.input_arg, *op.output_arg]:
        arg.ClearField("description")
        # Type inference for compilers, which a runtime has no use for.
        arg.ClearField("experimental_full_type")
    for attr in op.attr:
        attr.ClearField("description")


def main():
    ops = op_def_pb2.OpList.FromString(
        pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    )
    out = op_def_pb2.OpList()
    for op in sorted(ops.op, key=lambda op: op.name):
        strip(op)
        out.op.append(op)
    path = pathlib.Path(__file__).with_name("ops.pb")
    path.write_bytes(out.SerializeToString(deterministic=True))
    print(f"{len(out.op)} ops, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
