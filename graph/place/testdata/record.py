"""Records where TensorFlow's own server places random graphs: writes tensorflow.jsonl.

Each line is a graph, whether placement was soft, and each node's device or the error. Run it
with a Python that has TensorFlow: python record.py > tensorflow.jsonl
"""
import json, os, random, re, socket, subprocess, sys, tempfile

SERVER = r'''
import sys, os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
import tensorflow as tf
cluster = {"worker": sys.argv[1:3], "ps": sys.argv[3:]}
config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
servers = [tf.distribute.Server(cluster, j, i, config=config) for j in cluster for i in range(len(cluster[j]))]
sys.stdin.read()
'''

DEVICES = [""] * 8 + ["/job:ps", "/job:worker", "/task:1", "/job:worker/task:1", "/cpu:0", "/cpu:1", "/gpu:0",
                      "/job:worker/task:1/device:CPU:1", "/job:ps/task:0", "/job:worker/task:0/gpu:1", "/job:none"]


def make(rng, soft):
    nodes = []
    value = {"AddV2", "Const", "Placeholder", "Identity", "ReadVariableOp", "VariableV2", "Assign"}

    def pick(ops):
        names = [n["name"] for n in nodes if n["op"] in ops]
        return rng.choice(names) if names else None

    for i in range(rng.randrange(3, 14)):
        op = rng.choice(["VariableV2", "VarHandleOp", "Const", "Placeholder", "AddV2", "AddV2", "Identity", "Shape", "NoOp",
                         "Assign", "Assign", "ReadVariableOp", "ReadVariableOp", "AssignVariableOp"])
        inputs = {"AddV2": [pick(value), pick(value)], "Identity": [pick(value)], "Shape": [pick(value)],
                  "Assign": [pick({"VariableV2", "Assign"}), pick(value)], "ReadVariableOp": [pick({"VarHandleOp"})],
                  "AssignVariableOp": [pick({"VarHandleOp"}), pick(value)]}.get(op, [])
        if None in inputs:
            op, inputs = "VarHandleOp", []
        device = rng.choice(DEVICES)
        if rng.random() < 0.9 and (device == "/job:none" or not soft and "gpu" in device):
            device = ""
        n = {"name": "n%d" % i, "op": op, "device": device, "inputs": inputs,
             "controls": [m["name"] for m in nodes if rng.random() < 0.05], "class": []}
        if rng.random() < 0.3:
            n["class"] = ["n%d" % rng.randrange(i + 2) for _ in range(rng.randrange(1, 3))]
        nodes.append(n)
    return nodes


def graph_def(nodes, tf):
    g = tf.compat.v1.GraphDef()
    g.versions.producer = 1882
    for n in nodes:
        d = g.node.add(name=n["name"], op=n["op"], device=n["device"])
        d.input.extend(n["inputs"] + ["^" + c for c in n["controls"]])
        key = {"ReadVariableOp": "dtype", "AssignVariableOp": "dtype", "VarHandleOp": "dtype", "VariableV2": "dtype",
               "Const": "dtype", "Placeholder": "dtype", "NoOp": None}.get(n["op"], "T")
        if key:
            d.attr[key].type = 1
        if n["op"] in ("VarHandleOp", "VariableV2"):
            d.attr["shape"].shape.SetInParent()
        if n["op"] == "Const":
            d.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0))
        if n["class"]:
            d.attr["_class"].list.s.extend([b"loc:@" + c.encode() for c in n["class"]])
    return g


def field(number, data):
    """A length-delimited field, since TensorFlow's package lacks the messages of MasterService."""
    size, n = b"", len(data)
    while n > 127:
        size, n = size + bytes([n & 127 | 128]), n >> 7
    return bytes([number << 3 | 2]) + size + bytes([n]) + data


def main():
    import grpc
    import tensorflow as tf

    addresses = []
    for _ in range(3):
        with socket.socket() as s:
            s.bind(("localhost", 0))
            addresses.append("localhost:%d" % s.getsockname()[1])
    log = tempfile.TemporaryFile()
    server = subprocess.Popen([sys.executable, "-c", SERVER] + addresses, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=log, env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="0"))
    channel = grpc.insecure_channel(addresses[0])
    create = channel.unary_unary("/tensorflow.MasterService/CreateSession")
    close = channel.unary_unary("/tensorflow.MasterService/CloseSession")
    rng = random.Random(1)
    reader = os.fdopen(os.dup(log.fileno()), "rb")
    seen = 0
    for case in range(int(sys.argv[1]) if len(sys.argv) > 1 else 300):
        soft = case % 2 == 0
        nodes = make(rng, soft)
        config = tf.compat.v1.ConfigProto(allow_soft_placement=soft, log_device_placement=True)
        out = {"soft": soft, "nodes": nodes}
        try:
            answer = create(field(1, graph_def(nodes, tf).SerializeToString()) + field(2, config.SerializeToString()),
                            timeout=60, wait_for_ready=True)
            close(field(1, re.match(rb"\n.([0-9a-f]+)", answer, re.S).group(1)))
        except grpc.RpcError as e:
            out["code"], out["error"] = e.code().name, e.details().split("\n")[0]
        else:
            text = os.pread(reader.fileno(), 1 << 24, seen).decode()
            found = dict(re.findall(r"placer\.cc:\d+\] (\w+): \(\w+\): (\S+)", text))
            out["placed"] = {n["name"]: found[n["name"]] for n in nodes}
        seen = os.fstat(log.fileno()).st_size
        out["nodes"] = [{k: v for k, v in n.items() if v} for n in nodes]
        print(json.dumps(out, separators=(",", ":")))
    server.kill()


main()
