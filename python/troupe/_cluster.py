"""A cluster on this machine, with a process for each task."""

from __future__ import annotations

import html
import importlib
import json
import socket
import sys
import threading
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type, Union

from troupe import _process

_TRIES = 5  # attempts to start a cluster where ports cannot be reserved
_PORT_TAKEN = 2  # the error code if a port cannot be bound: UNKNOWN
_REFRESH = 1.0  # seconds between looks at the cluster, for a notebook's table


class Task:
    """A task of a `LocalCluster`, with a process of its own.

    Attributes:
        job: the name of its job.
        index: its index in the job.
        address: ``"host:port"``, the same after `restart`.
    """

    def __init__(self, cluster: "LocalCluster", job: str, index: int, address: str) -> None:
        self._cluster = cluster
        self.job = job
        self.index = index
        self.address = address
        self._process: Optional[_process.Process] = None
        self._before = ""  # the log of the processes that ended

    @property
    def name(self) -> str:
        """The name that `LocalCluster.task` takes, such as ``"worker:1"``."""
        return f"{self.job}:{self.index}"

    @property
    def target(self) -> str:
        """The target for sessions, ``grpc://host:port``."""
        return f"grpc://{self.address}"

    @property
    def device(self) -> str:
        """The name for ``tf.device``, such as ``"/job:worker/task:1"``."""
        return f"/job:{self.job}/task:{self.index}"

    @property
    def running(self) -> bool:
        """Whether the task's process is running."""
        return self._process is not None and self._process.running

    @property
    def pid(self) -> Optional[int]:
        """The id of the task's process, or None if it does not run."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def log(self) -> str:
        """The last lines of the task's log, including those from before `restart`."""
        now = self._process.log() if self._process is not None else ""
        lines = (self._before + now).splitlines(keepends=True)
        return "".join(lines[-_process.LOG_LINES :])

    def kill(self) -> None:
        """Ends the task's process at once, as a crash would."""
        if self._process is not None:
            self._process.kill()

    def stop(self, grace: Optional[float] = None) -> None:
        """Stops the task's process, as `Server.stop` does."""
        if self._process is not None:
            self._process.stop(grace)

    def restart(self) -> None:
        """Starts the task's process again, at the same address, after ending the running one, if any.

        Raises:
            ServerError: it did not start, or the cluster has been stopped.
        """
        if self._cluster._stopped:
            raise _process.ServerError(
                9, f"{self.name} cannot be restarted: its cluster has been stopped"
            )
        self.kill()
        self._begin()
        self._finish()

    def _begin(self) -> None:
        self._before = self.log
        self._process = None
        text = _server_def(self._cluster.spec, self.job, self.index)
        flags = ["--unpinned=cluster", *self._cluster._flags]
        self._process = _process.Process(text, flags)

    def _finish(self) -> None:
        assert self._process is not None
        self._process.wait_target()

    def __repr__(self) -> str:
        return f"<troupe.Task {self.name} {self.target}{'' if self.running else ', not running'}>"


class LocalCluster:
    """A cluster on this machine, for tests and notebooks.

    Each task is a process with a free port on the loopback interface. The cluster is stopped at the end of
    the ``with`` statement, by `stop`, and when this process ends, however it ends::

        with troupe.LocalCluster(ps=1, worker=2) as cluster:
            with cluster.session("worker:0", graph=graph) as session:
                session.run(...)
            cluster.task("worker:1").kill()
            print(cluster.task("worker:0").log)

    A notebook shows it as a table that is refreshed, with a link to the dashboard.

    On Linux, the ports are reserved before the processes start, until the cluster is stopped, so no other
    program can take one. Elsewhere, a start that lost a port is retried with other ports.
    """

    def __init__(
        self,
        tasks: Optional[Mapping[str, int]] = None,
        *,
        flags: Sequence[str] = ("--gpus=0",),
        host: str = "127.0.0.1",
        data: Optional[str] = None,
        durable: Union[str, Sequence[str], None] = None,
        data_limit: Union[int, str, None] = None,
        **jobs: int,
    ) -> None:
        """Starts the cluster; all tasks serve when the constructor returns.

        Args:
            tasks: how many tasks each job has, such as ``{"ps": 1, "worker": 2}``. Jobs may be given as
                keyword arguments instead. Without any, there are one ps and two workers.
            flags: flags of ``troupe serve`` for all tasks. The default uses no GPUs, since the tasks would
                have to share them. Without ``--http`` among them, the tasks serve `dashboard` on free ports
                of the loopback interface.
            host: the address that the tasks bind.
            data: a directory in which the containers in `durable` outlive the tasks' processes.
            durable: names or patterns of containers, such as ``"jobs"`` or ``["jobs", "problem_*"]``. The empty
                name is the default container.
            data_limit: most bytes of the files of each task, such as ``10 << 30`` or ``"10GiB"``. What would
                make them larger fails with RESOURCE_EXHAUSTED; reads and removals go on.
            **jobs: as `tasks`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: a job has no tasks.
            ServerError: a task did not start; the others have been stopped.
            BinaryNotFoundError: the program ``troupe`` is not installed.
        """
        self._tasks: List[Task] = []
        if tasks is not None and not isinstance(tasks, Mapping):
            raise TypeError(f'tasks is a dict such as {{"ps": 1, "worker": 2}}, not {tasks!r}')
        counts: Dict[str, int] = {**(tasks or {}), **jobs} or {"ps": 1, "worker": 2}
        for job, count in counts.items():
            if not isinstance(count, int):
                raise TypeError(f"the number of tasks of the job {job} is an int, not {count!r}")
            if count < 1:
                raise ValueError(f"the job {job} has {count} tasks; a job has at least one")
        self._flags = [
            *_process.flag_list(flags),
            *_process.durable_flags(data, durable, data_limit),
        ]
        if "http" not in (flag.partition("=")[0].lstrip("-") for flag in self._flags):
            self._flags.append("--http=127.0.0.1:0")
        self._host = host
        self._held: List[socket.socket] = []
        self._stopped = False
        self._tables = _Tables(self)
        for attempt in range(_TRIES):
            try:
                self._declare(counts, host)
                self._start()
                return
            except BaseException as error:
                self._end(0)
                taken = isinstance(error, _process.ServerError) and error.code == _PORT_TAKEN
                if not taken or attempt == _TRIES - 1:
                    raise

    def _declare(self, counts: Mapping[str, int], host: str) -> None:
        self._tasks = []
        for job, count in counts.items():
            for index in range(count):
                self._tasks.append(Task(self, job, index, self._reserve(host)))

    def _reserve(self, host: str) -> str:
        """Returns a free address, which is reserved until the cluster is stopped."""
        held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._held.append(held)
        held.bind((host, 0))
        # Set after bind, it allows a server to bind this port, but not a search for a free port to find it.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port = held.getsockname()[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _start(self) -> None:
        if sys.platform != "linux":
            self._let_go()
        for task in self._tasks:
            task._begin()
        for task in self._tasks:
            task._finish()

    def _let_go(self) -> None:
        while self._held:
            self._held.pop().close()

    @property
    def tasks(self) -> List[Task]:
        """All tasks, in the order of their declaration."""
        return list(self._tasks)

    def task(self, name: str, index: Optional[int] = None) -> Task:
        """Returns a task: ``task("worker:1")``, ``task("worker", 1)``, or ``task("worker")`` for its first.

        Its name as a device, ``"/job:worker/task:1"``, works, too.

        Raises:
            KeyError: there is no such task.
        """
        wanted = name if index is None and ":" in name else f"{name}:{index or 0}"
        for task in self._tasks:
            if wanted in (task.name, task.device):
                return task
        raise KeyError(f"no task {wanted}; there are {', '.join(t.name for t in self._tasks)}")

    @property
    def targets(self) -> Dict[str, str]:
        """The target of each task, by name: ``{"ps:0": "grpc://127.0.0.1:40001", ...}``."""
        return {task.name: task.target for task in self._tasks}

    @property
    def spec(self) -> Dict[str, List[str]]:
        """The cluster for ``tf.train.ClusterSpec``: ``{"ps": ["127.0.0.1:40001"], ...}``."""
        spec: Dict[str, List[str]] = {}
        for task in self._tasks:
            spec.setdefault(task.job, []).append(task.address)
        return spec

    @property
    def dashboard(self) -> str:
        """The address of the dashboard, ``http://host:port``, or an empty string if no task serves one.

        Each task serves a dashboard of the whole cluster; this is that of the first running task.
        """
        for task in self._tasks:
            if task._process is not None and task.running and task._process.http:
                return task._process.http
        return ""

    def session(self, task: Optional[str] = None, graph: Any = None, config: Any = None) -> Any:
        """Opens a ``tf.compat.v1.Session``.

        Args:
            task: the name of the task whose target is used, such as ``"worker:1"``. Without it, it is the
                first worker, or the first task if there is no worker.
            graph: the session's graph (default: TensorFlow's default graph).
            config: the session's ``tf.compat.v1.ConfigProto``.

        Raises:
            KeyError: there is no such task.
        """
        if task is None:
            task = "worker:0" if "worker" in self.spec else self._tasks[0].name
        tf = importlib.import_module("tensorflow.compat.v1")
        return tf.Session(self.task(task).target, graph=graph, config=config)

    def connect(self) -> None:
        """Makes the tasks devices of TensorFlow 2.

        Afterwards, ops and functions under ``tf.device(cluster.task("worker:1").device)`` run on that task. A program connects
        to one cluster at a time; connecting to another one ends what it has on the first.
        """
        tf = importlib.import_module("tensorflow")
        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(self.spec), job_name="client")

    def strategy(self, **options: Any) -> Any:
        """Returns a ``tf.distribute.ParameterServerStrategy`` over the cluster, whose chief is this program.

        Args:
            **options: those of the class, such as ``variable_partitioner``.

        Raises:
            ValueError: there is no job ``ps`` or no job ``worker``.
        """
        for job in ("ps", "worker"):
            if job not in self.spec:
                raise ValueError(f"the cluster has no job {job}, which the strategy needs")
        tf = importlib.import_module("tensorflow")
        chief = self._reserve(self._host)
        if sys.platform != "linux":
            self._let_go()
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({**self.spec, "chief": [chief]}),
            task_type="chief",
            task_id=0,
            rpc_layer="grpc",
        )
        return tf.distribute.ParameterServerStrategy(resolver, **options)

    def tf_config(self, job: str, index: int = 0) -> str:
        """Returns the value of ``TF_CONFIG`` that gives a child process the cluster and its place in it.

        The job may be one that the cluster does not have, such as ``"evaluator"``.
        """
        return json.dumps({"cluster": self.spec, "task": {"type": job, "index": index}})

    def status(self, timeout: float = 15.0) -> Dict[str, Any]:
        """Returns what ``troupe status --json`` prints for the first running task.

        Raises:
            ServerError: no task is running, or it does not answer within `timeout` seconds.
        """
        for task in self._tasks:
            if task.running:
                return _process.status(task.target, timeout)
        raise _process.ServerError(14, "no task of the cluster runs")

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Waits until all tasks see each other as up, as after `Task.restart`.

        Raises:
            ServerError: this takes longer than `timeout` seconds; the message names the missing ones.
        """
        for task in self._tasks:
            try:
                _process.wait_ready(task.target, timeout)
            except _process.ServerError as error:
                ended = ", ".join(t.name for t in self._tasks if not t.running)
                if not ended:
                    raise
                raise _process.ServerError(
                    error.code,
                    f"{error.message}; the processes of these tasks have ended: {ended}",
                ) from None

    def logs(self) -> Dict[str, str]:
        """Returns the log of each task, by name."""
        return {task.name: task.log for task in self._tasks}

    def stop(self, grace: Optional[float] = None) -> None:
        """Stops all tasks in parallel, as `Server.stop` does. It may be called again."""
        self._stopped = True
        self._end(grace)
        self._tables.stop()

    def _end(self, grace: Optional[float]) -> None:
        try:
            for task in self._tasks:
                if task._process is not None:
                    task._process.terminate(grace)
            for task in self._tasks:
                task.stop(grace)
        except BaseException:  # such as an interrupt while the steps that run are waited for
            for task in self._tasks:
                task.kill()
            raise
        finally:
            self._let_go()

    def __enter__(self) -> "LocalCluster":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.stop(0 if kind is not None else None)

    def __repr__(self) -> str:
        return f"<troupe.LocalCluster {', '.join(f'{n} {t}' for n, t in self.targets.items())}>"

    def _repr_html_(self) -> str:
        """The current table of tasks."""
        seen = self._look()
        heads = ("task", "target", "state", "process", "steps", "sessions", "memory")
        rows = []
        for task in self._tasks:
            cells = [
                task.name,
                task.target,
                "running" if task.running else "not running",
                task.pid or "",
            ]
            totals, memory = seen.get(task.name, ({}, 0)) if task.running else ({}, 0)
            if totals:
                opened, closed = totals.get("sessions_opened", 0), totals.get("sessions_closed", 0)
                cells += [totals.get("steps_done", 0), opened - closed, f"{memory / 2**20:.1f} MiB"]
            cells += [""] * (len(heads) - len(cells))
            rows.append("".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells))
        link = html.escape(self.dashboard, quote=True)
        return (
            f"<table><thead><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr></thead>"
            f"<tbody>{''.join(f'<tr>{row}</tr>' for row in rows)}</tbody></table>"
            + (f'<p><a href="{link}" target="_blank">the dashboard: {link}</a></p>' if link else "")
        )

    def _look(self) -> Dict[str, Any]:
        """Returns the totals and the memory in use of each task that answers, by name."""
        address = self.dashboard
        if not address:
            return {}
        try:
            with urllib.request.urlopen(
                f"{address}/ui/api/see?sections=totals", timeout=5
            ) as answer:
                tasks = json.load(answer)["tasks"]
        except (OSError, ValueError, urllib.error.URLError):
            return {}  # the task has ended, or asks for a token
        seen = {}
        for task in tasks:
            if task.get("totals") and task.get("process"):
                names = dict(part.split(":") for part in task["task"].split("/") if part)
                seen[f"{names['job']}:{names['task']}"] = (
                    task["totals"],
                    task["process"].get("memory_in_use", 0),
                )
        return seen

    def _ipython_display_(self) -> None:
        """Shows the table in a notebook, and refreshes it until the cluster is stopped."""
        self._tables.show()


class _Tables:
    """The tables of a cluster that a notebook shows."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._handles: List[Any] = []
        self._stopped = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()

    def show(self) -> None:
        display = importlib.import_module("IPython.display")
        handle = display.display(display.HTML(self._cluster._repr_html_()), display_id=True)
        with self._lock:
            if handle is None or self._stopped.is_set():
                return
            self._handles = [*self._handles[-7:], handle]  # a cell that is run again creates another
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._refresh, args=(display.HTML,), name="troupe-table", daemon=True
                )
                self._thread.start()

    def _refresh(self, page: Any) -> None:
        last = ""
        while True:
            ended = self._stopped.wait(_REFRESH)
            text = self._cluster._repr_html_()
            if text != last:
                for handle in self._handles:
                    handle.update(page(text))
            last = text
            if ended:
                return

    def stop(self) -> None:
        """Stops refreshing, after a last refresh of the tables."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(10)


def _server_def(spec: Mapping[str, Sequence[str]], job: str, index: int) -> str:
    """Returns a ServerDef in text format. ASCII strings in JSON are valid strings of this format too."""
    jobs = " ".join(
        "job { name: %s %s }"
        % (
            json.dumps(name),
            " ".join(
                "tasks { key: %d value: %s }" % (i, json.dumps(address))
                for i, address in enumerate(addresses)
            ),
        )
        for name, addresses in spec.items()
    )
    return f'cluster {{ {jobs} }}\njob_name: {json.dumps(job)}\ntask_index: {index}\nprotocol: "grpc"\n'
