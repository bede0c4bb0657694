"""Queues of a cluster, for programs without a graph and without TensorFlow.

Producers and consumers in any processes of any machines share a queue, with Go programs (package
``queues/pipeline``) and with graphs of TensorFlow, for which it is a ``tf.queue.FIFOQueue``::

    from troupe import pipeline

    rows = pipeline.Queue(
        "rows", {"image": ("float32", [784]), "label": "int64"}, device="/job:ps/task:0", capacity=4096
    )

    with rows.producer("grpc://10.0.0.2:2222") as producer:
        for image, label in examples:
            producer.put({"image": image, "label": label})

    with rows.consumer("grpc://10.0.0.2:2222", batch=128) as consumer:
        for batch in consumer:
            train(batch["image"], batch["label"])

A batch is leased to its consumer and leaves the queue when the loop asks for the next one. If the consumer's process
dies or freezes, the batch goes to another consumer. Producers number what they put, so that a put that is repeated
after an outage is stored once. Both go on by themselves after the loss of a connection or a server. What is promised
in which case is in ``docs/queues.md``.

It needs the packages numpy, grpcio and protobuf, which TensorFlow depends on (without it: ``pip install numpy grpcio protobuf``).
"""

from __future__ import annotations

import collections
import contextlib
import queue as channels
import secrets
import threading
import time
from types import TracebackType
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    Union,
)

import numpy as np

from troupe import _session
from troupe._connection import CODES, Connection, StatusError
from troupe._session import Graph, Session, is_lost, retried

__all__ = ["Batch", "Consumer", "PipelineError", "Producer", "Queue"]

Component = Union[Any, Tuple[Any, Sequence[int]]]
"""A component of elements: a dtype, such as ``"int64"``, ``np.float32`` or ``str``, or a pair of it and a shape."""

_CLOSE_TIME = 10.0  # seconds within which the last steps of a producer or a consumer end

_RETURN_TIME = 0.2  # seconds that a loop which ends waits for a batch in flight, to return it


class PipelineError(StatusError):
    """A step on a queue failed, or the queue's producer did.

    Attributes:
        code: the error's code, of TensorFlow and gRPC, an int such as 9 for FAILED_PRECONDITION.
        name: its name, such as ``"FAILED_PRECONDITION"``.
        message: the text, without the code.
    """


class Queue:
    """A queue of the cluster, which outlives its producers and consumers. All that share it declare it alike.

    Args:
        name: the queue's name, TensorFlow's ``shared_name``.
        components: what an element consists of: a dict of dtypes, or of pairs of a dtype and a shape, in order; or
            one of these, if an element is a single value. ``str`` and ``bytes`` stand for TensorFlow's strings.
        device: where the queue is, such as ``/job:ps/task:0``. If it is empty, the cluster finds it by its name.
        container: the container that has it; ``""`` is the default one. In a durable container it outlives its task.
        capacity: the most elements.
        open_wait: how many seconds programs wait for an earlier run's queue: a producer, for the consumers to take
            what is left in it; a consumer, for a producer to open it again.
    """

    def __init__(
        self,
        name: str,
        components: Union[Component, Mapping[str, Component]],
        *,
        device: str = "",
        container: str = "",
        capacity: int = 1024,
        open_wait: float = 10.0,
    ) -> None:
        if not name:
            raise ValueError("a queue that is shared needs a name")
        if capacity < 1:
            raise ValueError(f"queue {name}: a capacity of {capacity}")
        self.name = name
        self.device = device
        self.container = container
        self.capacity = capacity
        self.open_wait = open_wait
        self._single = not isinstance(components, Mapping)
        named = {"": components} if self._single else components
        if not named:
            raise ValueError(f"queue {name}: its elements have no components")
        self._keys: List[str] = list(named)
        parsed = [self._component(key, c) for key, c in named.items()]
        self._dtypes = [dtype for dtype, _ in parsed]
        self._shapes = [shape for _, shape in parsed]

    def _component(self, key: str, c: Component) -> Tuple[np.dtype[Any], Tuple[int, ...]]:
        try:
            return _component(c)
        except (TypeError, ValueError) as error:
            what = f"component {key!r}" if key else "a value"
            raise type(error)(f"queue {self.name}: {what}: {error}") from None

    def __repr__(self) -> str:
        return f"troupe.pipeline.Queue({self.name!r}, device={self.device!r})"

    def producer(
        self,
        target: str,
        *,
        batch: int = 128,
        retry: Optional[float] = 60.0,
        keep_open: bool = False,
        **security: Any,
    ) -> Producer:
        """Returns a producer, through the server at `target`.

        If an earlier run has closed the queue, it opens it again once its elements have been taken.

        Args:
            batch: the most elements that a step puts into the queue. An element waits for others only while a step
            is under way.
            retry: how many seconds a step is repeated that fails because a task or a connection was lost. With None,
                a put is not repeated, and its elements are not numbered; TensorFlow's servers need that.
            keep_open: leave the queue open for other producers at the end.
            security: ``tls_ca``, ``tls_cert``, ``tls_key``, ``token`` and ``token_file``, as for `troupe.Actor`.
        """
        return Producer(self, target, batch, retry, keep_open, security)

    def consumer(
        self,
        target: str,
        *,
        batch: int = 1,
        prefetch: int = 0,
        lease: Optional[float] = 30.0,
        retry: Optional[float] = 60.0,
        max_deliveries: int = 0,
        dead_letters: Optional[Queue] = None,
        **security: Any,
    ) -> Consumer:
        """Returns a consumer, through the server at `target`.

        Args:
            batch: the elements of a batch. Only the last one of a closed queue may be smaller.
            prefetch: how many batches may be leased before the loop asks for them.
            lease: how many seconds a batch is leased for. The consumer renews its leases; if it does not, because
                its process died or is frozen, the elements go to another consumer. With None, elements leave the
                queue when they are taken, and are lost if the process dies; TensorFlow's servers need that.
            retry: as for producers.
            max_deliveries: after so many deliveries, an element that comes back becomes a dead letter; 0 means no
            limit.
            dead_letters: the queue for dead letters, on the same device. Without one they are dropped.
            security: as for producers.
        """
        return Consumer(
            self, target, batch, prefetch, lease, retry, max_deliveries, dead_letters, security
        )

    def size(self, target: str, **security: Any) -> int:
        """Returns how many elements the queue has that are not leased."""

        def add(graph: Graph, queue: str) -> None:
            graph.node("size", "QueueSizeV2", queue)

        with self._use(target, add, security) as session:
            return int(session.run({}, ["size:0"])[0])

    def delete(self, target: str, **security: Any) -> None:
        """Deletes the queue and its elements, as after a run that was killed. Who waits for it fails with ABORTED."""

        def add(graph: Graph, queue: str) -> None:
            graph.node("delete", "DestroyResourceOp", queue, ignore_lookup_error=True)

        with self._use(target, add, security) as session:
            session.run({}, targets=["delete"])

    @contextlib.contextmanager
    def _use(
        self, target: str, add: Callable[[Graph, str], None], security: Mapping[str, Any]
    ) -> Iterator[Session]:
        """Yields a session of the queue and what `add` adds to it, which then ends."""
        connection = Connection(_session.grpc, target, **security)
        try:
            session = Session(connection, self._graph(add), PipelineError)
            yield session
            session.close()
        finally:
            connection.close()

    def _graph(self, add: Callable[[Graph, str], None]) -> Graph:
        graph = Graph(self.device)
        add(graph, self._node(graph, "queue", self._dtypes, self._shapes))
        return graph

    def _node(
        self,
        graph: Graph,
        name: str,
        dtypes: List[np.dtype[Any]],
        shapes: List[Tuple[int, ...]],
    ) -> str:
        return graph.node(
            name,
            "FIFOQueueV2",
            component_types=dtypes,
            shapes=shapes,
            capacity=self.capacity,
            shared_name=self.name,
            container=self.container,
        )

    def _open_wait_ms(self) -> int:
        return max(0, round(1000 * self.open_wait))

    def _columns(self, value: Any, rows: bool) -> Tuple[List[np.ndarray[Any, Any]], int]:
        """Returns the arrays of an element, or of several if `rows` is set, with a first dimension for them, and how many they are."""
        if self._single:
            values = [value]
        else:
            unknown = set(value) - set(self._keys)
            if unknown or len(value) < len(self._keys):
                raise ValueError(
                    f"queue {self.name}: an element has {', '.join(self._keys)}, not {', '.join(map(str, value)) or 'nothing'}"
                )
            values = [value[key] for key in self._keys]
        columns, n = [], None
        for key, dtype, shape, v in zip(self._keys, self._dtypes, self._shapes, values):
            what = f"queue {self.name}: component {key!r}" if key else f"queue {self.name}: a value"
            try:
                array = _array(v, dtype)
            except (TypeError, OverflowError) as error:
                raise type(error)(f"{what}: {error}") from None
            if not rows:
                array = array.reshape((1,) + array.shape)
            if not array.ndim or array.shape[1:] != shape:
                raise ValueError(f"{what} has the shape {array.shape[1:]}, not {shape}")
            if n is not None and len(array) != n:
                raise ValueError(f"{what} has {len(array)} rows, and others have {n}")
            n = len(array)
            columns.append(array)
        return columns, n or 0


def _component(c: Component) -> Tuple[np.dtype[Any], Tuple[int, ...]]:
    dtype, shape = c if isinstance(c, (tuple, list)) else (c, ())
    dims = tuple(int(d) for d in shape)
    if any(d < 0 for d in dims):
        raise ValueError(f"components of queues have known shapes, not {dims}")
    return _session.dtype_of(dtype), dims


# By the kind of a dtype: the kinds of arrays that become it.
_KINDS = {"b": "b", "i": "iu", "u": "iu", "f": "iuf", "c": "iufc"}


def _array(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns a value as an array of its own. A value that the dtype cannot hold raises an error."""
    if dtype == _session.STRING:
        strings = np.array(value, dtype)  # numpy's own strings lose zeros at their end
        for v in strings.reshape(-1):
            if not isinstance(v, (str, bytes)):
                raise TypeError(f"a string is expected, not {v!r}")
        return strings
    array = np.array(value)
    if array.size and array.dtype.kind not in _KINDS[dtype.kind]:
        raise TypeError(f"values of {array.dtype} are no {dtype}")
    if array.size and dtype.kind in "iu":
        info = np.iinfo(dtype)
        if int(array.min()) < info.min or int(array.max()) > info.max:
            raise OverflowError(f"a value does not fit into {dtype}")
    return array.astype(dtype, copy=False)


class Producer:
    """Puts elements into a queue. `Queue.producer` makes it; its methods may be called from several threads.

    ``with`` closes the queue at its end, as `close` does, unless it was made with ``keep_open``; after an error, it
    closes it with that as the reason, as `fail` does, so that consumers learn of it.
    """

    def __init__(
        self,
        queue: Queue,
        target: str,
        batch: int,
        retry: Optional[float],
        keep_open: bool,
        security: Mapping[str, Any],
    ) -> None:
        if batch < 1:
            raise ValueError(f"queue {queue.name}: {batch} elements to a step")
        self._queue = queue
        self._batch = batch
        self._retry = retry
        self._keep_open = keep_open
        self._id = secrets.token_hex(16)
        self._connection = Connection(_session.grpc, target, **security)
        self._session = Session(self._connection, queue._graph(self._add), PipelineError)
        self._changed = threading.Condition()
        # The rest is guarded by it.
        self._waiting: Deque[Tuple[List[np.ndarray[Any, Any]], int]] = collections.deque()
        self._count = 0  # elements that wait
        self._flying = False
        self._ending = False
        self._error: Optional[BaseException] = None
        self._step: Any = None  # grpc's future of the step that is under way
        self._stop = threading.Event()
        self.elements = 0
        """How many elements are in the queue, or were."""
        self._sender = threading.Thread(target=self._send, name="troupe-producer", daemon=True)
        try:
            self._open()
        except BaseException:
            self._connection.close()
            raise
        self._sender.start()

    def _add(self, graph: Graph, queue: str) -> None:
        graph.node("open", "QueueIsClosedV2", queue, _open_wait_ms=self._queue._open_wait_ms())
        rows = [
            graph.node(f"row{i}", "Placeholder", dtype=dtype)
            for i, dtype in enumerate(self._queue._dtypes)
        ]
        if self._retry is None:
            graph.node("enqueue", "QueueEnqueueManyV2", queue, *rows, Tcomponents=self._queue._dtypes)
        else:
            name = np.array(self._id, _session.STRING)
            graph.node("id", "Const", dtype=_session.STRING, value=name)
            graph.node("first", "Placeholder", dtype=np.dtype(np.int64), shape=())
            graph.node(
                "enqueue",
                "TroupeQueueEnqueueManyOnce",
                queue,
                "id",
                "first",
                *rows,
                Tcomponents=self._queue._dtypes,
            )
        graph.node("close", "QueueCloseV2", queue)

    def _open(self) -> None:
        """Opens the queue again if an earlier run has closed it."""
        closed = retried(self._retry, lambda: self._session.run({}, ["open:0"]), self._stop)[0]
        if closed:
            raise PipelineError(
                CODES.index("FAILED_PRECONDITION"),
                f"queue {self._queue.name} is closed, and its server, which is TensorFlow's, does not open queues again",
            )

    def put(self, element: Any) -> None:
        """Puts an element into the queue: a dict of its components, or its value.

        It waits while a batch waits for room in the queue. An error of an earlier element is raised, and ends the
        producer.
        """
        self._put(*self._queue._columns(element, rows=False))

    def put_batch(self, columns: Any) -> None:
        """Puts several elements into the queue: a dict of arrays, or an array, whose first dimension are the elements."""
        arrays, n = self._queue._columns(columns, rows=True)
        for lo in range(0, n, self._batch):
            hi = min(lo + self._batch, n)
            self._put([a[lo:hi] for a in arrays], hi - lo)

    def _put(self, columns: List[np.ndarray[Any, Any]], n: int) -> None:
        with self._changed:
            while self._error is None and not self._ending and self._count and self._count + n > self._batch:
                self._changed.wait()
            self._check()
            if self._ending:
                raise PipelineError(
                    CODES.index("CANCELLED"), f"the producer of queue {self._queue.name} is closed"
                )
            self._waiting.append((columns, n))
            self._count += n
            self._changed.notify_all()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _send(self) -> None:
        """Runs steps with what waits, one after the other, until the producer ends."""
        first = 0
        while True:
            with self._changed:
                while not self._waiting and not self._ending and self._error is None:
                    self._changed.wait()
                if not self._waiting or self._error is not None or self._ending:
                    return
                taken = list(self._waiting)
                n = self._count
                self._waiting.clear()
                self._count = 0
                self._flying = True
                self._changed.notify_all()
            failed: Optional[BaseException] = None
            try:
                self._enqueue(taken, first)
            except BaseException as error:  # whatever it is, put and flush raise it
                failed = error
            first += n
            with self._changed:
                self._flying = False
                self._step = None
                if failed is None:
                    self.elements += n
                elif self._error is None:
                    self._error = failed
                self._changed.notify_all()

    def _enqueue(self, taken: List[Tuple[List[np.ndarray[Any, Any]], int]], first: int) -> None:
        columns = zip(*(columns for columns, _ in taken))
        feeds = {f"row{i}:0": np.concatenate(c) for i, c in enumerate(columns)}
        if self._retry is not None:
            feeds["first:0"] = np.array(first, np.int64)

        def started(call: Any) -> None:
            with self._changed:
                self._step = call
                if self._error is not None or self._ending:
                    call.cancel()

        retried(
            self._retry,
            lambda: self._session.run(feeds, targets=["enqueue"], started=started),
            self._stop,
        )

    def flush(self) -> None:
        """Waits until everything that was put is in the queue."""
        with self._changed:
            while self._error is None and (self._waiting or self._flying):
                self._changed.wait()
            self._check()

    def close(self) -> None:
        """Waits until everything that was put is in the queue, closes the queue, unless it is to be kept open, and ends the producer."""
        try:
            self.flush()
            if not self._keep_open:
                self._close_queue(self._session, None)
        finally:
            self._end()

    def fail(self, reason: BaseException) -> None:
        """Closes the queue with a reason, and ends the producer.

        Consumers get what is in the queue, then an error with the reason's text, and with its code if it is a
        `PipelineError`. What was put and is not in the queue yet is dropped.
        """
        code = reason.code if isinstance(reason, StatusError) else CODES.index("UNKNOWN")
        text = reason.message if isinstance(reason, StatusError) else f"{type(reason).__name__}: {reason}"
        with self._changed:
            if self._error is None:
                self._error = reason
            if self._step is not None:
                self._step.cancel()
            self._changed.notify_all()
        self._stop.set()
        self._sender.join()

        def add(graph: Graph, queue: str) -> None:
            graph.node("close", "QueueCloseV2", queue, _close_reason=text, _close_code=code)

        session = Session(self._connection, self._queue._graph(add), PipelineError)
        try:
            self._close_queue(session, _CLOSE_TIME)
            session.close()
        finally:
            self._end()

    def _close_queue(self, session: Session, timeout: Optional[float]) -> None:
        attempts = 0

        def close() -> None:
            nonlocal attempts
            attempts += 1
            session.run({}, targets=["close"], timeout=timeout)

        try:
            retried(self._retry, close, threading.Event())
        except PipelineError as error:
            if attempts == 1 or error.name != "CANCELLED":
                raise  # otherwise an earlier attempt has closed it

    def _end(self) -> None:
        with self._changed:
            self._ending = True
            if self._step is not None:
                self._step.cancel()
            self._changed.notify_all()
        self._stop.set()
        try:
            self._sender.join()
            self._session.close()
        finally:
            self._connection.close()

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if self._ending:
            return
        if error is None:
            self.close()
            return
        try:
            self.fail(error)
        except PipelineError:
            pass  # the queue may be gone; the error of the block is what matters


class Batch(Mapping[str, Any]):
    """Elements of a queue: an array for each component, by its name, whose first dimension are the elements.

    Attributes:
        size: the number of elements.
    """

    def __init__(
        self,
        keys: List[str],
        arrays: List[np.ndarray[Any, Any]],
        leases: Optional[_Leases],
        token: bytes,
    ) -> None:
        self._arrays = dict(zip(keys, arrays))
        self._leases = leases
        self._token = token
        self.size = len(arrays[0])

    @property
    def value(self) -> np.ndarray[Any, Any]:
        """The elements, if they are single values."""
        return self._arrays[""]

    def __getitem__(self, key: str) -> np.ndarray[Any, Any]:
        return self._arrays[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def acknowledge(self) -> None:
        """Ends the batch's lease, so that it is not delivered again.

        The loop does that by itself when it asks for the next batch. A program that leaves the loop early
        acknowledges its last batch. If the lease had ended before, it raises FAILED_PRECONDITION: the elements go to
        another consumer.
        """
        if self._leases is not None:
            self._leases.settle("acknowledge", self._token)

    def give_back(self) -> None:
        """Ends the batch's lease and puts its elements back to the front of the queue, for any consumer."""
        if self._leases is None:
            raise PipelineError(
                CODES.index("FAILED_PRECONDITION"), "a batch without a lease has left the queue"
            )
        self._leases.settle("return", self._token)


class Consumer:
    """Takes elements from a queue. `Queue.consumer` makes it.

    It is an iterator of batches, which ends when the queue is closed and empty and nothing is leased any more. Then
    another loop waits for the next run. If the loop is left early, what it has not acknowledged goes back to the
    queue. If an earlier run has closed the queue, the loop waits for a producer up to the queue's ``open_wait``,
    then raises FAILED_PRECONDITION, which says who closed it; if the producer failed, with its error.

    `close`, or the end of ``with``, ends it.
    """

    def __init__(
        self,
        queue: Queue,
        target: str,
        batch: int,
        prefetch: int,
        lease: Optional[float],
        retry: Optional[float],
        max_deliveries: int,
        dead_letters: Optional[Queue],
        security: Mapping[str, Any],
    ) -> None:
        if batch < 1 or prefetch < 0 or max_deliveries < 0 or lease is not None and lease < 0.001:
            raise ValueError(
                f"queue {queue.name}: batches of {batch} elements, {prefetch} of them prefetched, a lease of {lease} s, "
                f"{max_deliveries} deliveries"
            )
        if lease is None and (max_deliveries or dead_letters is not None):
            raise ValueError(f"queue {queue.name}: max_deliveries and dead_letters need a lease")
        if dead_letters is not None and not max_deliveries:
            raise ValueError(f"queue {queue.name}: dead_letters needs max_deliveries")
        if dead_letters is not None and (
            not queue.device or dead_letters.device != queue.device
        ):
            raise ValueError(
                f"queue {queue.name} on {queue.device!r}, and its dead letters on {dead_letters.device!r}: both name the same device"
            )
        self._queue = queue
        self._batch = batch
        self._prefetch = prefetch
        self._lease = lease
        # Without leases, the answer of a step that has taken elements may be lost: repeating it would hide that.
        self._retry = None if lease is None else retry
        self._max_deliveries = max_deliveries
        self._dead_letters = dead_letters
        self._begun = False  # an element has been taken since the queue was opened
        self._closed = False
        self._loops: List[_Loop] = []
        self._lock = threading.Lock()
        self.expired = 0
        """How many elements were used and could not be acknowledged in time: another consumer gets them."""
        self._connection = Connection(_session.grpc, target, **security)
        self._session = Session(self._connection, queue._graph(self._add), PipelineError)

    def _add(self, graph: Graph, queue: str) -> None:
        graph.node("n", "Const", dtype=np.dtype(np.int32), value=np.array(self._batch, np.int32))
        types = self._queue._dtypes
        wait = {"_open_wait_ms": self._queue._open_wait_ms()}
        if self._lease is None:
            for name, attrs in (("first", wait), ("dequeue", {})):
                graph.node(name, "QueueDequeueUpToV2", queue, "n", component_types=types, **attrs)
            return
        dead = []
        if self._dead_letters is not None:
            shapes = self._queue._shapes
            dead.append(self._dead_letters._node(graph, "dead_letters", types, shapes))
        graph.node("leases", "Placeholder", dtype=_session.STRING, shape=(-1,))
        for name, attrs in (("first", wait), ("dequeue", {})):
            graph.node(
                name,
                "TroupeQueueLease",
                queue,
                "n",
                "leases",
                *dead,
                component_types=types,
                N=len(dead),
                lease_ms=round(1000 * self._lease),
                max_deliveries=self._max_deliveries,
                **attrs,
            )
        for name, op in (("acknowledge", "Acknowledge"), ("return", "Return"), ("renew", "Renew")):
            graph.node(name, "TroupeQueue" + op, queue, "leases")

    def __iter__(self) -> Iterator[Batch]:
        with self._lock:
            if self._closed:
                raise PipelineError(
                    CODES.index("CANCELLED"), f"the consumer of queue {self._queue.name} is closed"
                )
            loop = _Loop(self)
            self._loops.append(loop)
        try:
            while True:
                batch = loop.next()
                if batch is None:
                    return
                yield batch
                if loop.leases is not None:
                    loop.leases.use(batch._token)
        finally:
            try:
                loop.close()
            finally:
                with self._lock:
                    self._loops.remove(loop)

    def close(self) -> None:
        """Ends the loops, which raise CANCELLED where they wait, and the consumer. It may be called again."""
        with self._lock:
            self._closed = True
            loops = list(self._loops)
        try:
            for loop in loops:
                loop.close()
            self._session.close()
        finally:
            self._connection.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def _fetches(self) -> List[str]:
        outputs = len(self._queue._dtypes) + (0 if self._lease is None else 2)
        node = "dequeue" if self._begun else "first"
        return [f"{node}:{i}" for i in range(outputs)]


class _Loop:
    """One loop of a consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._step: Any = None  # grpc's future of the step that takes a batch
        self._closed = False
        self._cancelled = False  # the step that takes a batch is to end
        self.leases: Optional[_Leases] = None
        if consumer._lease is not None:
            self.leases = _Leases(consumer, self._stop)
        # With prefetching, a thread takes a batch whenever there is a slot, and passes it on, or what ended it.
        self._slots = threading.Semaphore(consumer._prefetch)
        self._ahead: channels.SimpleQueue[Any] = channels.SimpleQueue()
        self._pump: Optional[threading.Thread] = None
        if consumer._prefetch:
            self._pump = threading.Thread(target=self._take_ahead, name="troupe-consumer", daemon=True)
            self._pump.start()

    def next(self) -> Optional[Batch]:
        """Returns the next batch, or None if the queue has ended."""
        if self._stop.is_set():
            raise PipelineError(CODES.index("CANCELLED"), "the loop was closed")
        if self._pump is None:
            batch = self._take()
        else:
            taken = self._ahead.get()
            self._slots.release()
            if isinstance(taken, BaseException):
                self._ahead.put(taken)
                raise taken
            batch = taken
        if self.leases is not None:
            self.leases.check()
        return batch

    def _take_ahead(self) -> None:
        while True:
            self._slots.acquire()
            if self._stop.is_set():
                return
            try:
                taken: Any = self._take()
            except BaseException as error:  # whatever it is, the loop raises it
                taken = error
            self._ahead.put(taken)
            if not isinstance(taken, Batch):
                return

    def _take(self) -> Optional[Batch]:
        c = self._consumer
        fetches = c._fetches()
        try:
            if self.leases is None:
                arrays, token = c._session.run({}, fetches, started=self._started), b""
            else:
                token, arrays = self.leases.lease(fetches, self._started)
        except PipelineError as error:
            if error.name != "OUT_OF_RANGE":
                raise
            c._begun = False
            return None
        c._begun = True
        batch = Batch(c._queue._keys, arrays, self.leases, token)
        if self.leases is not None:
            self.leases.add(token, batch.size)
        return batch

    def _started(self, call: Any) -> None:
        with self._lock:
            self._step = call
            if self._cancelled:
                call.cancel()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._stop.set()
        if self._pump is not None:
            self._slots.release()
            if self.leases is not None:
                # The lease of a batch in flight would be known to nobody, and would have to expire.
                self._pump.join(_RETURN_TIME)
        with self._lock:
            self._cancelled = True
            if self._step is not None:
                self._step.cancel()
        if self._pump is not None:
            self._pump.join()
            self._ahead.put(PipelineError(CODES.index("CANCELLED"), "the loop was closed"))
        if self.leases is not None:
            self.leases.close()


class _Leases:
    """What a loop has leased.

    The step that leases the next batch acknowledges those that the loop has used. While that step waits for
    elements, a thread acknowledges them, because the queue may end only then. The thread also renews the leases of
    the others.
    """

    def __init__(self, consumer: Consumer, stop: threading.Event) -> None:
        self._consumer = consumer
        self._stop = stop  # ends retries
        self._changed = threading.Condition()
        # The rest is guarded by it.
        self._leasing = False  # a step is leasing a batch
        self._held: Dict[bytes, int] = {}  # the elements of each lease that is in use or was prefetched
        self._used: Dict[bytes, int] = {}  # and of each that is to be acknowledged
        self._sent: Dict[bytes, int] = {}  # and of each that a step is acknowledging
        self._error: Optional[Exception] = None
        self._step: Any = None  # grpc's future of the step that leases a batch
        self._ending = False
        self._returned = False  # what the loop has not used goes back to the queue
        self._keeper = threading.Thread(target=self._keep, name="troupe-leases", daemon=True)
        self._keeper.start()

    def lease(
        self, fetches: List[str], started: Callable[[Any], None]
    ) -> Tuple[bytes, List[np.ndarray[Any, Any]]]:
        """Leases a batch, and acknowledges those that were used."""
        with self._changed:
            self._leasing = True
        tokens = self._send()
        held = None

        def begun(call: Any) -> None:
            started(call)
            with self._changed:
                self._step = call
                if self._error is not None:
                    call.cancel()

        try:
            out = retried(
                self._consumer._retry,
                lambda: self._consumer._session.run(_feed(tokens), fetches, started=begun),
                self._stop,
            )
            held = out[1]
            return out[0].reshape(-1)[0], out[2:]
        except PipelineError:
            self.check()  # the thread's error has cancelled the step
            raise
        finally:
            self._answered(tokens, held)
            with self._changed:
                self._leasing = False

    def add(self, token: bytes, elements: int) -> None:
        """Holds the lease of a batch."""
        with self._changed:
            self._held[token] = elements

    def use(self, token: bytes) -> None:
        """Has a batch acknowledged that the loop has used, unless it was acknowledged or given back."""
        with self._changed:
            if token not in self._held:
                return
            if self._returned:
                self._consumer.expired += self._held.pop(token)
                return
            self._used[token] = self._held.pop(token)
            self._changed.notify_all()

    def check(self) -> None:
        """Raises the error of the thread."""
        with self._changed:
            if self._error is not None:
                raise self._error

    def settle(self, how: str, token: bytes) -> None:
        """Acknowledges or returns one batch now."""
        held = self._settle(how, [token], self._consumer._retry, None)
        with self._changed:
            elements = self._held.pop(token, 0)
            if held[0]:
                return
            if how == "acknowledge":
                self._consumer.expired += elements
        raise PipelineError(
            CODES.index("FAILED_PRECONDITION"),
            "the batch was returned to the queue before, by its consumer or because it had not been acknowledged within "
            f"{self._consumer._lease} s: it goes to another consumer",
        )

    def close(self) -> None:
        """Acknowledges what was used, and returns the rest."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._keeper.join()
        try:
            self._acknowledge_used(0, _CLOSE_TIME)
        except (PipelineError, OSError, ValueError):  # they come back when their leases expire
            with self._changed:
                self._consumer.expired += sum(self._used.values())
        with self._changed:
            self._returned = True
            tokens = list(self._held)
        if tokens:
            with contextlib.suppress(PipelineError, OSError, ValueError):  # as above
                self._settle("return", tokens, 0, _CLOSE_TIME)

    def _send(self) -> List[bytes]:
        """Returns the leases that a step is to acknowledge."""
        with self._changed:
            tokens = list(self._used)
            self._sent.update(self._used)
            self._used.clear()
            return tokens

    def _answered(self, tokens: List[bytes], held: Optional[np.ndarray[Any, Any]]) -> None:
        """Handles the answer of a step that acknowledged leases, or its failure: then another step does it again."""
        with self._changed:
            for i, token in enumerate(tokens):
                elements = self._sent.pop(token)
                if held is None:
                    self._used[token] = elements
                elif not held[i]:
                    self._consumer.expired += elements

    def _settle(
        self, how: str, tokens: List[bytes], limit: Optional[float], timeout: Optional[float]
    ) -> np.ndarray[Any, Any]:
        """Ends or renews leases in one step, and returns for each whether it had not ended before.

        The step has a timeout, and is repeated for a limited time."""

        def step() -> List[np.ndarray[Any, Any]]:
            return self._consumer._session.run(_feed(tokens), [how + ":0"], timeout=timeout)

        return retried(limit, step, self._stop)[0]

    def _acknowledge_used(self, limit: Optional[float], timeout: Optional[float]) -> None:
        tokens = self._send()
        if not tokens:
            return
        held = None
        try:
            held = self._settle("acknowledge", tokens, limit, timeout)
        finally:
            self._answered(tokens, held)

    def _keep(self) -> None:
        lease = self._consumer._lease or 0.0
        renewal = time.monotonic() + lease / 3
        while True:
            with self._changed:
                while True:
                    due = renewal - time.monotonic()
                    waits = self._leasing and bool(self._used) and self._error is None
                    if self._ending or due <= 0 or waits:
                        break
                    self._changed.wait(due)
                if self._ending:
                    return
            try:
                if waits:
                    self._acknowledge_used(self._consumer._retry, lease)
                if time.monotonic() >= renewal:
                    renewal = time.monotonic() + lease / 3
                    self._renew()
            except Exception as error:  # whatever it is, the loop raises it; a token's file may be gone
                with self._changed:
                    self._error = self._error or error
                    if self._step is not None:
                        self._step.cancel()

    def _renew(self) -> None:
        with self._changed:
            tokens = list(self._held) + list(self._used)
        if not tokens:
            return
        try:
            self._settle("renew", tokens, None, self._consumer._lease)
        except PipelineError as error:
            if not is_lost(error) and error.name != "DEADLINE_EXCEEDED":
                raise  # after an outage, the next renewal may still be in time


def _feed(tokens: List[bytes]) -> Dict[str, np.ndarray[Any, Any]]:
    fed = np.empty(len(tokens), _session.STRING)
    fed[:] = tokens
    return {"leases:0": fed}
