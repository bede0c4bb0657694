"""TensorFlow's own servers, which say what is right."""
import json
import socket
import subprocess
import sys

# They run in a process of their own: one with TensorFlow's servers in it does not end by itself.
_SERVERS = """
import json, os, sys
import tensorflow.compat.v1 as tf
spec = json.loads(sys.argv[1])
servers = [tf.train.Server(tf.train.ClusterSpec(spec), job, i) for job in sorted(spec) for i in range(len(spec[job]))]
print("up", flush=True)
sys.stdin.read()
os._exit(0)
"""


def free_addresses(jobs):
    """A cluster spec at free ports of the loopback interface, of so many tasks of each job."""
    held = {job: [socket.create_server(("127.0.0.1", 0)) for _ in range(n)] for job, n in jobs.items()}
    spec = {job: ["127.0.0.1:%d" % s.getsockname()[1] for s in sockets] for job, sockets in held.items()}
    for sockets in held.values():
        for s in sockets:
            s.close()
    return spec


def targets_of(spec):
    """The targets of a cluster's tasks: {"ps:0": "grpc://…"}."""
    return {"%s:%d" % (job, i): "grpc://" + a for job, addresses in spec.items() for i, a in enumerate(addresses)}


class Servers:
    """A cluster of TensorFlow's servers: Servers(ps=1, worker=2).targets["worker:0"]. It is a context manager."""

    restartable = True

    def __init__(self, **jobs):
        self._jobs = jobs
        self._process = None
        self.targets = {}
        self.start()

    def start(self):
        """Starts the servers; also again after stop, at other addresses."""
        for _ in range(5):  # another process may take a port before the server does
            spec = free_addresses(self._jobs)
            self._process = subprocess.Popen([sys.executable, "-c", _SERVERS, json.dumps(spec)], stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if any(b"up" in line for line in self._process.stdout):
                self.targets = targets_of(spec)
                return
            self._process.wait()
        raise RuntimeError("TensorFlow's servers did not start")

    def restart(self):
        self.stop()
        self.start()

    def running(self):
        return self._process.poll() is None

    def stop(self):
        if self.running():
            self._process.kill()
        self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()
