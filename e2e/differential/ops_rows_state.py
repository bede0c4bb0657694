"""Rows for ops on variables, lists, maps, tables and TensorArrays: the call makes what they work on."""
import numpy as np
import tensorflow.compat.v1 as tf

from ops_call import Flow, Optional, Ref, Table, TensorArray, TensorList, TensorLists, TensorMap, Var
from ops_make import row
from ops_rows_array import CASTS

OPTIMIZERS = ["AdaMax", "Adadelta", "Adagrad", "AdagradDA", "AdagradV2", "Adam", "AdamWithAmsgrad", "AddSign", "CenteredRMSProp", "Ftrl", "FtrlV2",
              "GradientDescent", "KerasMomentum", "Momentum", "PowerSign", "ProximalAdagrad", "ProximalGradientDescent", "RMSProp"]


@row(" ".join(p + o for o in OPTIMIZERS for p in ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")))
def optimizer(m):
    shape = m.shape(1 if "Sparse" in m.op else 0, 3)
    kind = Var if m.op.startswith("Resource") else Ref
    palette = m.pick("positive", "unit")
    rows = m.int(0, 4)
    inputs = {}
    for arg in m.declaration.input_arg:
        if arg.is_ref or arg.type == tf.resource.as_datatype_enum:
            inputs[arg.name] = kind(m.array("T", m.bent(shape, .01), palette))
        elif arg.name == "indices":
            inputs[arg.name] = m.index("Tindices", (rows,), shape[0])
        elif arg.name in ("grad", "delta"):
            inputs[arg.name] = m.array("T", m.bent(((rows,) if "Sparse" in m.op else shape[:1]) + shape[1:]), m.pick("plain", "plain", "any"))
        elif arg.name == "global_step":
            inputs[arg.name] = m.ints(m.int(1, 5), "int64")
        elif arg.name == "lr_power":
            inputs[arg.name] = m.ints(m.pick(-.5, -.5, -1., 0.), "T")
        else:
            inputs[arg.name] = m.array("T", (), "unit")
    m.flags(*[a.name for a in m.declaration.attr if a.name in ("use_nesterov", "update_slots", "multiply_linear_by_lr")])
    return inputs


@row("CountUpTo ResourceCountUpTo")
def count_up_to(m):
    start = m.array("T", m.bent(()), "plain")
    m.set(limit=m.pick(0, 3, 10))
    return {"ref": Ref(start)} if m.op == "CountUpTo" else {"resource": Var(start)}


@row("AssignAdd AssignSub Assign AssignAddVariableOp AssignSubVariableOp AssignVariableOp")
def assign(m):
    dtype, shape = "T" if "T" in m.types else "dtype", m.shape()
    if m.op == "Assign" or m.dtype(dtype).fields or m.types[dtype] not in CASTS + ["string"]:
        m.types[dtype] = m.pick("float32", "int32", "string", "bool", "bfloat16", "uint64") if m.op in ("Assign", "AssignVariableOp") else m.types[dtype]
    first, second = m.array(dtype, shape), m.array(dtype, m.bent(shape, .06))
    return {"resource": Var(first), "value": second} if m.op.endswith("VariableOp") else {"ref": Ref(first), "value": second}


@row("ReadVariableOp VariableShape VarIsInitializedOp IsVariableInitialized DebugGradientRefIdentity RefIdentity")
def read_variable(m):
    if "dtype" in m.types and m.types["dtype"] not in CASTS + ["string"] or m.op == "VariableShape":
        m.types["dtype"] = "float32"
    if "T" in m.types:
        m.types["T"] = m.pick("float32", "int32", "string")
    x = m.any("T" if "T" in m.types else "dtype" if "dtype" in m.types else "float32")
    name = m.declaration.input_arg[0].name
    return {name: Ref(x) if m.declaration.input_arg[0].is_ref else Var(x)}


# Lists

ELEMENTS = ("float32", "int32", "int64", "bool", "string", "float64", "complex64", "uint8", "bfloat16")


def element(m):
    m.types["element_dtype"] = m.pick(*ELEMENTS)


def some_list(m, shape):
    """A list of tensors of one shape, and its length."""
    n = m.int(0, 4)
    return TensorList(m.array("element_dtype", (n,) + shape)), n


def element_shape(m, shape, dtype="int32"):
    return m.ints(m.pick(-1, [-1] * len(shape), list(shape), list(m.bent(shape, .2))), dtype)


@row("EmptyTensorList TensorListReserve")
def list_make(m):
    m.types["element_dtype"] = m.pick(*ELEMENTS)
    out = {"element_shape": element_shape(m, m.shape(0, 2), "shape_type")}
    name = "max_num_elements" if m.op == "EmptyTensorList" else "num_elements"
    return dict(out, **{name: m.ints(m.pick(0, 1, 3, -1))})


@row("TensorListFromTensor TensorListScatter TensorListScatterV2 TensorListSplit TensorListPushBackBatch")
def list_from(m):
    element(m)
    shape, n = m.shape(0, 2), m.int(0, 4)
    x = m.array("element_dtype", (n,) + shape)
    if m.op == "TensorListPushBackBatch":
        shape = shape or (2,)
        lists = [m.array("element_dtype", (m.int(0, 3),) + shape[1:]) for _ in range(shape[0] + m.chance(.05))]
        return {"input_handles": TensorLists(*lists), "tensor": m.array("element_dtype", m.bent(shape))}
    out = {"tensor": x, "element_shape": element_shape(m, shape, "shape_type")}
    if "Scatter" in m.op:
        out["indices"] = m.index("int32", m.bent((n,)), 5)
        if m.op.endswith("V2"):
            out["num_elements"] = m.ints(m.pick(-1, 5, 7, 2))
    if m.op == "TensorListSplit":
        cut = sorted(m.int(0, n) for _ in range(m.int(0, 2)))
        lengths = np.diff([0] + cut + [n])
        out["lengths"] = m.ints(lengths if m.chance(.95) else lengths + 1, "int64")
        out["element_shape"] = m.ints(m.pick(-1, [-1] + list(shape)), "shape_type")
    return out


@row("TensorListLength TensorListElementShape TensorListConcatLists TensorListPushBack TensorListPopBack TensorListGetItem TensorListSetItem "
     "TensorListResize TensorListStack TensorListGather TensorListConcat TensorListConcatV2 TensorListScatterIntoExistingList")
def list_use(m):
    element(m)
    shape = m.shape(0, 2)
    handle, n = some_list(m, shape)
    name = m.op[len("TensorList"):]
    if name == "ConcatLists":
        return {"input_a": handle, "input_b": some_list(m, m.bent(shape))[0]}
    out = {"input_handle": handle}
    if name == "PushBack":
        out["tensor"] = m.array("element_dtype", m.bent(shape))
    elif name in ("PopBack", "GetItem", "Stack", "Gather"):
        out["element_shape"] = element_shape(m, shape)
    elif name == "SetItem":
        m.flags("resize_if_index_out_of_bounds")
        out["item"] = m.array("element_dtype", m.bent(shape))
    elif name == "Resize":
        out["size"] = m.ints(m.pick(0, 1, 3, 6, -1))
    elif name == "Concat":
        m.set(element_shape=m.pick(None, [None] * len(shape), list(shape)))
    elif name == "ConcatV2":
        out["element_shape"] = element_shape(m, shape, "shape_type")
        out["leading_dims"] = m.ints([m.int(0, 3) for _ in range(m.pick(0, n))], "int64")
    elif name == "ScatterIntoExistingList":
        k = m.int(0, 3)
        out.update(tensor=m.array("element_dtype", (k,) + shape), indices=m.index("int32", (k,), n))
    if name in ("GetItem", "SetItem"):
        out["index"] = m.index("int32", (), n, .1)
    if name == "Gather":
        out["indices"] = m.index("int32", m.shape(1, 1), n)
    if name == "Stack" and m.chance(.3):
        m.set(num_elements=m.pick(n, -1, n + 1))
    return out


# Maps and optionals


@row("TensorMapSize TensorMapLookup TensorMapInsert TensorMapErase TensorMapHasKey TensorMapStackKeys")
def map_use(m):
    m.types.update(key_dtype=m.pick("int32", "string", "int64", "float32", "bool"), value_dtype=m.pick("float32", "string", "int32"))
    n, shape = m.int(0, 3), m.shape(0, 1)
    keys = m.array("key_dtype", (n,) + shape, "ties")
    out = {"input_handle": TensorMap(keys, m.array("value_dtype", (n,) + m.shape(0, 1)))}
    if m.op not in ("TensorMapSize", "TensorMapStackKeys"):
        out["key"] = keys[m.int(0, n - 1)] if n and m.chance(.6) else m.array("key_dtype", shape, "ties")
        out["key"] = np.asarray(out["key"], keys.dtype)
    if m.op == "TensorMapInsert":
        out["value"] = m.array("value_dtype", m.shape(0, 1))
    return out


@row("OptionalFromValue OptionalHasValue OptionalGetValue")
def optional(m):
    types = [m.pick(*ELEMENTS) for _ in range(m.int(1, 2))]
    arrays = [m.array(t, m.shape(0, 2)) for t in types]
    if m.op == "OptionalFromValue":
        return {"components": arrays}
    if m.op == "OptionalGetValue":
        m.set(output_types=types if m.chance(.95) else types[::-1] + ["int8"], output_shapes=[None if m.chance(.4) else list(m.bent(x.shape)) for x in arrays])
        m.attrs["output_shapes"] = m.attrs["output_shapes"][:len(m.attrs["output_types"])] + [None] * (len(m.attrs["output_types"]) - len(arrays))
    return {"optional": Optional(*arrays) if m.chance(.9) else Optional()}


# Tables


@row("LookupTableFindV2 LookupTableSizeV2 LookupTableInsertV2 LookupTableImportV2 LookupTableRemoveV2")
def table(m):
    static = m.op in ("LookupTableFindV2", "LookupTableSizeV2") and m.chance(.5)
    kinds = [("string", "int64"), ("int64", "string"), ("int64", "int64"), ("int64", "float32"), ("int32", "int32"), ("string", "string"), ("string", "float32")]
    m.types["Tin"], m.types["Tout"] = m.pick(*kinds)
    n = m.int(0, 5)
    keys = m.array("Tin", (n,), m.pick("ties", "any"))
    if m.chance(.9):
        keys = np.array(sorted(set(keys.tolist())), keys.dtype)
    out = {"table_handle": Table(keys, m.array("Tout", keys.shape), static=static)}
    if m.op == "LookupTableSizeV2":
        return out
    asked = m.array("Tin", m.shape(0, 2), "ties")
    out["keys"] = asked
    if m.op == "LookupTableFindV2":
        out["default_value"] = m.array("Tout", m.bent(()))
    elif "Remove" not in m.op:
        out["values"] = m.array("Tout", m.bent(asked.shape))
    return out


# TensorArrays


@row("TensorArrayReadV3 TensorArrayGatherV3 TensorArrayConcatV3 TensorArraySizeV3 TensorArrayWriteV3 TensorArrayScatterV3 TensorArraySplitV3")
def tensor_array(m):
    dtype = "T" if "T" in m.types else "dtype"
    m.types[dtype] = m.pick(*ELEMENTS)
    n, shape = m.int(0, 4), m.shape(0, 2)
    name = m.op[len("TensorArray"):-2]
    if name == "Split" and m.chance(.95):
        n = 0
    x = m.array(dtype if "T" in m.types or "dtype" in m.types else "float32", (n,) + shape)
    out = {"handle": TensorArray(x, dynamic=m.chance(.5))}
    if name in ("Read", "Write"):
        out["index"] = m.index("int32", (), n, .1) if name == "Read" else m.ints(n + m.pick(0, 0, 0, 1, -1))
    if name in ("Gather", "Scatter"):
        k = m.int(0, 3)
        out["indices"] = m.index("int32", (k,), n) if name == "Gather" else m.ints(n + m.rng.permutation(k))
    if name == "Write":
        out["value"] = m.array(dtype, m.bent(shape))
    elif name == "Scatter":
        out["value"] = m.array(dtype, m.bent((k,) + shape))
    elif name == "Split":
        cut = sorted(m.int(0, 4) for _ in range(m.int(0, 2)))
        out["value"] = m.array(dtype, m.bent((4,) + shape))
        out["lengths"] = m.ints(np.diff([0] + cut + [4]), "int64")
    out["flow_in"] = Flow()
    return out


GENERATORS = {1: 3, 2: 2}  # the algorithms Philox and ThreeFry, with the numbers of their state


@row("RngSkip RngReadAndSkip StatefulStandardNormal StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt StatefulUniformInt")
def generator(m):
    algorithm = m.pick(1, 1, 1, 1, 2, 3)
    state = m.array("int64", m.bent((GENERATORS.get(algorithm, 3) + m.pick(0, 0, 1),)), "plain")
    inputs = {"resource": Var(state)}
    for arg in m.declaration.input_arg[1:]:
        if arg.name in ("algorithm", "alg"):
            inputs[arg.name] = m.ints(algorithm, "int64" if arg.name == "algorithm" else "int32")
        elif arg.name == "delta":
            inputs[arg.name] = m.ints(m.pick(0, 1, 5, 10**6), "uint64" if m.op == "RngReadAndSkip" else "int64")
        elif arg.name == "shape":
            m.types["shape_dtype"] = m.pick("int32", "int64")
            inputs[arg.name] = m.ints([m.int(0, 5) for _ in range(m.int(0, 3))], "shape_dtype")
        else:
            low = m.int(-100, 50)
            inputs[arg.name] = m.ints(low if arg.name == "minval" else m.pick(100, 51, 10**9), "dtype")
    return inputs
