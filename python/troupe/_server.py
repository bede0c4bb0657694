"""The class Server, with the interface of tf.distribute.Server."""

from __future__ import annotations

import importlib
from types import TracebackType
from typing import Any, Callable, Dict, Optional, Sequence, Type, TypeVar, Union

from troupe import _process

T = TypeVar("T")


def _tensorflow() -> Any:
    """TensorFlow's v1 interface, even if a program has replaced the module tensorflow."""
    return importlib.import_module("tensorflow.compat.v1")


def _server_def(
    server_or_cluster_def: Any,
    job_name: Optional[str],
    task_index: Optional[int],
    protocol: Optional[str],
    config: Any,
) -> Any:
    tf = _tensorflow()
    if isinstance(server_or_cluster_def, tf.train.ServerDef):
        server_def = tf.train.ServerDef()
        server_def.CopyFrom(server_or_cluster_def)
        given = {"job_name": job_name, "task_index": task_index, "protocol": protocol}
        for field, value in given.items():
            if value is not None:
                setattr(server_def, field, value)
        if not server_def.protocol:
            raise tf.errors.NotFoundError(
                None,
                None,
                "No server factory registered for the given ServerDef: it has no protocol. "
                'The available server factories are: [ GRPC_SERVER ], whose protocol is "grpc"',
            )
        if not server_def.cluster.job:
            raise tf.errors.InternalError(
                None,
                None,
                f'Job "{server_def.job_name}" was not defined in cluster: it has no jobs',
            )
    else:
        try:
            cluster = tf.train.ClusterSpec(server_or_cluster_def)
        except TypeError:
            raise TypeError(
                "Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or "
                f"`tf.train.ClusterSpec`: it is {server_or_cluster_def!r}."
            ) from None
        if job_name is None:
            job_name = _only(cluster.jobs, "job_name", "The cluster's jobs are")
        if task_index is None:
            if job_name not in cluster.jobs:
                raise ValueError(
                    f"No such job in cluster: {job_name!r}. The cluster's jobs are: {', '.join(cluster.jobs)}."
                )
            task_index = _only(
                cluster.task_indices(job_name), "task_index", f"The tasks of the job {job_name} are"
            )
        server_def = tf.train.ServerDef(
            cluster=cluster.as_cluster_def(),
            job_name=job_name,
            task_index=task_index,
            protocol="grpc" if protocol is None else protocol,
        )
    if config is not None:
        server_def.default_session_config.MergeFrom(config)
    return server_def


def _only(choices: Sequence[T], argument: str, where: str) -> T:
    if len(choices) != 1:
        names = ", ".join(map(str, choices)) or "none"
        raise ValueError(f"Must specify an explicit `{argument}`. {where}: {names}.")
    return choices[0]


class Server:
    """A server for one task of a cluster, in place of ``tf.distribute.Server``.

    The server is a child process. It runs until `stop`, or until this process ends, however it ends. As with
    TensorFlow's servers, dropping the object does not stop it. In a ``with`` statement it is
    stopped at the end::

        with troupe.Server({"local": ["localhost:0"]}) as server:
            with tf.compat.v1.Session(server.target) as session:
                ...

    Methods may be called from any thread. In a fork of this process, only the object's target is usable.
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: Optional[str] = None,
        task_index: Optional[int] = None,
        protocol: Optional[str] = None,
        config: Any = None,
        start: bool = True,
        *,
        flags: Sequence[str] = (),
        echo: bool = True,
        startup_timeout: Optional[float] = None,
        data: Optional[str] = None,
        durable: Union[str, Sequence[str], None] = None,
        data_limit: Union[int, str, None] = None,
    ) -> None:
        """Creates a server; its port is bound when the constructor returns.

        Args:
            server_or_cluster_def: a ``tf.train.ServerDef``, ``tf.train.ClusterDef`` or
                ``tf.train.ClusterSpec``, or a dict from job names to lists of ``"host:port"`` or to dicts
                from task indices to ``"host:port"``. In a cluster of one task, port 0 is a free port.
            job_name: the server's job. It may be omitted if the cluster has one job or a ServerDef has it.
            task_index: the server's task in the job. It may be omitted if the job has one task or a ServerDef
                has it.
            protocol: ``"grpc"``, the only one.
            config: a ``tf.compat.v1.ConfigProto`` with defaults for the server's sessions.
            start: whether to call `start`.
            flags: further flags of ``troupe serve``, such as ``["--gpus=0", "--http=localhost:8080"]``.
            echo: whether the server's log goes to this process's standard error, as TensorFlow's does. `log`
                always has it.
            startup_timeout: how many seconds after its start the server waits for tasks that have never been
                seen; None means two minutes, or the ``--startup-timeout`` in `flags`.
            data: a directory in which the containers in `durable` outlive the server's process. It may be that of
                other tasks, too: each has a directory of its own in it.
            durable: names or patterns of containers (``tf.container``), such as ``"jobs"`` or
                ``["jobs", "problem_*"]``. The empty name is the default container.
            data_limit: most bytes of the files in the directory, such as ``10 << 30`` or ``"10GiB"``. What would
                make them larger fails with RESOURCE_EXHAUSTED; reads and removals go on.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: `job_name` or `task_index` is missing, or the cluster has no such job.
            tf.errors.OpError: the server refuses the definition, with the subclass that TensorFlow's server
                raises: for example ``UnknownError`` for a port that is taken, ``NotFoundError`` for another
                protocol, ``InternalError`` for a task that the cluster does not have.
            BinaryNotFoundError: the program ``troupe`` is not installed.
        """
        self._definition = _server_def(
            server_or_cluster_def, job_name, task_index, protocol, config
        )
        flags = _process.flag_list(flags)
        if startup_timeout is not None:
            flags = [*flags, f"--startup-timeout={startup_timeout:f}s"]
        flags = [*flags, *_process.durable_flags(data, durable, data_limit)]
        self._process = _process.Process(self._definition.SerializeToString(), flags, echo)
        self._call(self._process.wait_target)
        if start:
            try:
                self.start()
            except BaseException:
                self._process.kill()  # nobody else could
                raise

    @staticmethod
    def _call(function: Callable[..., T], *args: Any) -> T:
        """Calls the function, and converts its ServerError to TensorFlow's error of the same code."""
        try:
            return function(*args)
        except _process.ServerError as error:
            errors = _tensorflow().errors
            try:
                kind = errors.exception_type_from_error_code(error.code)
            except KeyError:
                kind = errors.UnknownError
            raise kind(None, None, error.message) from None

    def start(self) -> None:
        """Starts the server. It may be called again.

        Raises:
            tf.errors.UnknownError: the server has ended.
        """
        self._call(self._process.start)

    def join(self, timeout: Optional[float] = None) -> bool:
        """Waits until the server has ended: by `stop`, or because its process was stopped.

        Args:
            timeout: how many seconds to wait at most; None waits without a limit.

        Returns:
            Whether it has ended.

        Raises:
            tf.errors.UnavailableError: it has failed; the message has the exit code and the end of the log.
        """
        return self._call(self._process.join, timeout)

    def stop(self, grace: Optional[float] = None) -> None:
        """Stops the server, and waits until it has ended. It may be called again.

        Args:
            grace: how many seconds running steps may continue; those that are still running are then
                cancelled. None means 5 s, or the ``--drain`` in `flags`. 0 ends the process at once, and
                clients see a lost connection.
        """
        self._process.stop(grace)

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Waits until all tasks of the cluster are up.

        Raises:
            tf.errors.DeadlineExceededError: this takes longer than `timeout` seconds; the message names the
                missing tasks.
        """
        self._call(_process.wait_ready, self.target, timeout)

    def status(self, timeout: float = 15.0) -> Dict[str, Any]:
        """Returns what the server knows about each task of the cluster.

        Returns:
            What ``troupe status --json`` prints: ``{"task": name, "spec": text, "tasks": [{"task": name,
            "address": "host:port", "state": "up", "devices": [...], ...}, ...]}``.

        Raises:
            tf.errors.UnavailableError: the server does not answer within `timeout` seconds.
        """
        return self._call(_process.status, self.target, timeout)

    @property
    def target(self) -> str:
        """The target for sessions, ``grpc://host:port``."""
        return self._process.target

    @property
    def http(self) -> str:
        """The address of the server's dashboard and metrics, ``http://host:port``, or an empty string.

        The server has one if `flags` have ``--http``, such as ``--http=127.0.0.1:0`` for a free port.
        """
        return self._process.http

    @property
    def server_def(self) -> Any:
        """The ``tf.train.ServerDef`` that the server was created with."""
        return self._definition

    @property
    def log(self) -> str:
        """The server's log: its last 10,000 lines."""
        return self._process.log()

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the server's process is running."""
        return self._process.running

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> "Server":
        """Creates a server for a cluster of one task, on a free port of localhost.

        Args:
            config: a ``tf.compat.v1.ConfigProto`` with defaults for the server's sessions.
            start: whether to call `start`.
        """
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        definition = self._definition
        state = "" if self.running else ", ended"
        return f"<troupe.Server {definition.job_name}:{definition.task_index} {self.target}{state}>"
