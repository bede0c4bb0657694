"""Troupe: servers that TensorFlow's distributed sessions run on.

Programs for TensorFlow's distributed runtime create a ``tf.distribute.Server`` (``tf.train.Server``
in TensorFlow 1) and open a ``tf.compat.v1.Session`` on its target. This package has servers for them that run
as processes of the program ``troupe``.

A program that may be changed creates a task of a cluster like this::

    import troupe

    server = troupe.Server({"ps": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222"]}, "ps", 0)
    server.join()

`Server` takes the arguments of ``tf.distribute.Server``, and adds ``stop``, ``wait_ready``, ``status``,
``log`` and the ``with`` statement.

To run a program without changing it::

    python -m troupe.run program.py --its=arguments

or, where one line can be added, ``import troupe.tensorflow`` before the servers are created. Both
replace ``tf.distribute.Server`` and its other names with `Server`.

A cluster on this machine, for tests and notebooks::

    with troupe.LocalCluster(ps=1, worker=2) as cluster:
        with cluster.session("worker:1", graph=graph) as session:
            session.run(...)

In tests with pytest, the fixture ``troupe_cluster`` is such a cluster. See `troupe.pytest_plugin`.

Go programs that are tasks of a cluster have actors, which can be sent to and asked::

    votes = troupe.Actor("grpc://10.0.0.2:2222", "worker:1", "votes")
    votes.ask({"@type": "google.protobuf.Empty"}, timeout=5)

See `Actor`, and `publish` for messages to topics.

Programs without a graph share the cluster's queues through `troupe.pipeline`.

The command: ``python -m troupe status grpc://10.0.0.1:2222`` or just ``troupe status …``.

Wheels contain the program ``troupe``. Other installations use the one that the environment variable
``TROUPE_BINARY`` names, or the first one in ``PATH``. See `find_binary`.

Servers end with the process that created them, however it ends, even by ``kill -9``.

TensorFlow is imported when it is needed: by `Server` and by ``LocalCluster.session``.
"""

from troupe import _functions
from troupe._actors import Actor, ActorError, publish
from troupe._binary import BinaryNotFoundError, find_binary
from troupe._cluster import LocalCluster, Task
from troupe._process import ServerError
from troupe._server import Server

_functions.number_apart()  # if TensorFlow is imported already; otherwise when a server is created

__all__ = [
    "Actor",
    "ActorError",
    "BinaryNotFoundError",
    "LocalCluster",
    "Server",
    "ServerError",
    "Task",
    "find_binary",
    "publish",
]
