"""Summaries and event files, which TensorFlow's own reader reads. Server and client see the same files."""
import glob
import os
import shutil
import tempfile
import threading

from support import np, raises, same, tf
from tensorflow.core.util import event_pb2
from tensorflow.python.ops import gen_summary_ops as ops


class Folder:
    """A folder for event files that goes away."""

    def __enter__(self):
        self.path = tempfile.mkdtemp()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def files(self):
        return sorted(glob.glob(os.path.join(self.path, "*")))

    def events(self):
        """All events of the only file but the first, which tells its version."""
        (file,) = self.files()
        events = list(tf.train.summary_iterator(file))
        assert events[0].file_version == "brain.Event:2", events[0]
        assert events[0].source_metadata.writer == "tensorflow.core.util.events_writer", events[0]
        return events[1:]


def create(handle, folder, queue=10, millis=1 << 30, suffix=".v2"):
    return ops.create_summary_file_writer(handle, folder.path, queue, millis, suffix)


def test_every_kind_of_summary_comes_back(cluster):
    with cluster.graph(), Folder() as folder:
        w = ops.summary_writer(shared_name="w")
        image = np.linspace(-1, 1, 2 * 3 * 4 * 3, dtype=np.float32).reshape(2, 3, 4, 3)
        metadata = tf.SummaryMetadata(display_name="shown")
        graph = tf.get_default_graph().as_graph_def().SerializeToString()
        event = event_pb2.Event(step=9, wall_time=1.5, session_log=event_pb2.SessionLog(msg="hello"))
        writes = [
            lambda: ops.write_scalar_summary(w, tf.constant(1, tf.int64), "scalar", 2.5),
            lambda: ops.write_histogram_summary(w, tf.constant(2, tf.int64), "histogram", [1.0, 2.0, -3.0]),
            lambda: ops.write_image_summary(w, tf.constant(3, tf.int64), "image", image, tf.constant([255, 0, 0], tf.uint8)),
            lambda: ops.write_audio_summary(w, tf.constant(4, tf.int64), "audio", [[0.5, -0.5]], 100.0),
            lambda: ops.write_summary(w, tf.constant(5, tf.int64), [[1, 2], [3, 4]], "tensor", metadata.SerializeToString()),
            lambda: ops.write_raw_proto_summary(w, tf.constant(6, tf.int64), tf.summary.merge([tf.summary.scalar("a", 1.0), tf.summary.scalar("b", 2.0)])),
            lambda: ops.write_graph_summary(w, tf.constant(7, tf.int64), graph),
            lambda: ops.import_event(w, event.SerializeToString()),
        ]
        writes, made, flush, close = [f() for f in writes], create(w, folder), ops.flush_summary_writer(w), ops.close_summary_writer(w)
        with cluster.session() as sess:
            sess.run(made)
            for write in writes:
                sess.run(write)
            assert folder.events() == [], "events were written before there were too many"
            sess.run(flush)
            got = folder.events()
            sess.run(close)
            with raises(tf.errors.NotFoundError, "does not exist"):
                sess.run(flush)
        assert [e.step for e in got] == [1, 2, 3, 4, 5, 6, 7, 9], got
        values = [list(e.summary.value) for e in got]
        assert values[0][0].tag == "scalar" and values[0][0].simple_value == 2.5
        assert values[1][0].histo.num == 3 and values[1][0].histo.min == -3
        assert [v.tag for v in values[2]] == ["image/image/0", "image/image/1"] and values[2][0].image.width == 4
        assert values[3][0].audio.encoded_audio_string[:4] == b"RIFF"
        same(tf.make_ndarray(values[4][0].tensor), np.array([[1, 2], [3, 4]], np.int32))
        assert values[4][0].metadata == metadata
        assert [(v.tag, v.simple_value) for v in values[5]] == [("a", 1.0), ("b", 2.0)]
        assert got[6].graph_def == graph and got[7] == event
        assert os.path.basename(folder.files()[0]).startswith("events.out.tfevents.") and folder.files()[0].endswith(".v2")


def test_writers_are_shared_by_name(cluster):
    """Two sessions with one writer, which is made once, and many threads that write at the same time."""
    container = cluster.name + ".writers"

    def program(tag):
        g = tf.Graph()
        with g.as_default(), tf.device("/job:worker/task:0"):
            w = ops.summary_writer(shared_name="shared", container=container)
            return g, create(w, folder), ops.write_scalar_summary(w, tf.constant(1, tf.int64), tag, 1.0), ops.close_summary_writer(w)

    with Folder() as folder:
        programs = [program(t) for t in ("one", "two")]
        for g, made, _, _ in programs:
            with tf.Session(cluster.master, graph=g) as sess:
                sess.run(made)

        def write(g, op):
            with tf.Session(cluster.master, graph=g) as sess:
                for _ in range(25):
                    sess.run(op)

        threads = [threading.Thread(target=write, args=(g, op)) for g, _, op, _ in programs * 2]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        with tf.Session(cluster.master, graph=programs[0][0]) as sess:
            sess.run(programs[0][3])
        tags = [e.summary.value[0].tag for e in folder.events()]
        assert sorted(tags) == ["one"] * 50 + ["two"] * 50, tags


def test_reset_completes_the_file(cluster):
    container = cluster.name + ".reset"
    with Folder() as folder, tf.Graph().as_default(), tf.device("/job:worker/task:0"):
        w = ops.summary_writer(shared_name="w", container=container)
        made, write = create(w, folder), ops.write_scalar_summary(w, tf.constant(1, tf.int64), "t", 1.0)
        with cluster.session() as sess:
            sess.run(made)
            sess.run(write)
        tf.Session.reset(cluster.master, [container])
        assert len(folder.events()) == 1


def test_what_cannot_be_written_is_refused(cluster):
    with cluster.graph(), Folder() as folder:
        w, step = ops.summary_writer(shared_name="w"), tf.constant(1, tf.int64)
        made = create(w, folder)
        file = os.path.join(folder.path, "file")
        open(file, "w").close()
        hold = tf.placeholder(tf.string, None)
        refused = [
            (ops.import_event(w, hold), b"\xff", tf.errors.DataLossError, "Bad tf.Event binary proto tensor string"),
            (ops.write_graph_summary(w, step, hold), b"\xff", tf.errors.DataLossError, "Bad tf.GraphDef binary proto tensor string"),
            (ops.write_raw_proto_summary(w, step, hold), [b"", b"\xff"], tf.errors.DataLossError, "Bad tf.compat.v1.Summary binary proto tensor string at index 1"),
            (ops.write_histogram_summary(w, step, hold, [float("nan")]), "h", tf.errors.InvalidArgumentError, "Nan in summary histogram for: h"),
            (ops.create_summary_file_writer(ops.summary_writer(shared_name="x"), hold, 1, 1, ""), file, tf.errors.FailedPreconditionError, "ot a directory"),
            (ops.create_summary_db_writer(w, hold, "e", "r", "u"), "db", tf.errors.UnimplementedError, "CreateSummaryDbWriter"),
        ]
        with cluster.session() as sess:
            with raises(tf.errors.NotFoundError, "does not exist"):
                sess.run(refused[0][0], {hold: b""})
            sess.run(made)
            for op, value, error, text in refused:
                with raises(error, text):
                    sess.run(op, {hold: value})


def test_summaries_of_a_graph(cluster):
    with cluster.graph():
        merged = tf.summary.merge([tf.summary.scalar("s", 3.0), tf.summary.histogram("h", [1.0, 2.0]), tf.summary.image("i", np.ones((1, 2, 2, 4), np.uint8))])
        again = tf.raw_ops.MergeSummary(inputs=[merged, merged])
        summary = tf.Summary.FromString(cluster.run(merged))
        assert [v.tag for v in summary.value] == ["s", "h", "i/image/0"], summary
        decoded = cluster.run(tf.image.decode_png(summary.value[2].image.encoded_image_string))
        same(decoded, np.ones((2, 2, 4), np.uint8))
        with raises(tf.errors.InvalidArgumentError, "Duplicate tag s found in summary inputs"):
            cluster.run(again)
