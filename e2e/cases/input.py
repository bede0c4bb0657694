"""Input pipelines: files, readers and their queues, parsing, batches."""
import os
import shutil
import struct
import tempfile
import zlib

from support import Background, np, raises, tf

RAW = tf.raw_ops


class Folder:
    """A folder of files that ends with the case."""

    def __enter__(self):
        self.path = tempfile.mkdtemp()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def __call__(self, name, content):
        path = os.path.join(self.path, name)
        with open(path, "wb") as f:
            f.write(content)
        return path

    def records(self, name, values, compression=""):
        path = os.path.join(self.path, name)
        with tf.io.TFRecordWriter(path, options=tf.io.TFRecordOptions(compression_type=compression)) as w:
            for v in values:
                w.write(v)
        return path


def until_end(sess, fetches):
    """Runs until the input ends, and gives what came."""
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess, coordinator)
    got = []
    try:
        while True:
            got.append(sess.run(fetches))
    except tf.errors.OutOfRangeError:
        pass
    finally:
        coordinator.request_stop()
        coordinator.join(threads)
    return got


def initialize(sess):
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])


def test_lines_to_batches(cluster):
    with Folder() as folder:
        names = [folder("%d.csv" % i, b"header\n" + b"".join(b"%d,%d.5,w%d\n" % (10 * i + j, j, j) for j in range(5))) for i in range(3)]
        files = tf.train.string_input_producer(names, num_epochs=2, shuffle=False)
        reader = tf.TextLineReader(skip_header_lines=1)
        key, line = reader.read(files)
        fields = tf.decode_csv(line, [[0], [0.0], [""]])
        batch = tf.train.batch([key] + fields, 4, allow_smaller_final_batch=True)
        counts = [reader.num_records_produced(), reader.num_work_units_completed()]
        with cluster.session() as sess:
            initialize(sess)
            got = until_end(sess, batch)
            assert [len(b[0]) for b in got] == [4] * 7 + [2], [len(b[0]) for b in got]
            keys, ints, floats, texts = (np.concatenate(column) for column in zip(*got))
            assert list(ints) == [10 * i + j for _ in range(2) for i in range(3) for j in range(5)], ints
            assert list(floats) == [j + 0.5 for _ in range(6) for j in range(5)], floats
            assert list(texts[:5]) == [b"w%d" % j for j in range(5)], texts
            assert keys[6] == names[1].encode() + b":3", keys[6]
            assert sess.run(counts) == [30, 6]


def test_examples_to_shuffled_batches(cluster):
    def example(i):
        feature = {"id": tf.train.Feature(int64_list=tf.train.Int64List(value=[i]))}
        feature["tags"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"t%d" % k for k in range(i % 3)]))
        if i % 2:
            feature["x"] = tf.train.Feature(float_list=tf.train.FloatList(value=[i, -i]))
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    for compression in ("", "GZIP", "ZLIB"):
        with Folder() as folder, cluster.graph():
            names = [folder.records(str(i), [example(10 * i + j) for j in range(10)], compression) for i in range(4)]
            files = tf.train.string_input_producer(tf.train.match_filenames_once(os.path.join(folder.path, "?")), num_epochs=1)
            _, serialized = tf.TFRecordReader(options=tf.io.TFRecordOptions(compression_type=compression)).read(files)
            batch = tf.train.shuffle_batch([serialized], 8, capacity=40, min_after_dequeue=10, allow_smaller_final_batch=True)
            parsed = tf.io.parse_example(batch, {
                "id": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([2], tf.float32, default_value=[0.5, 0.25]), "tags": tf.io.VarLenFeature(tf.string)})
            with cluster.session() as sess:
                initialize(sess)
                got = until_end(sess, parsed)
            ids = np.concatenate([b["id"] for b in got])
            assert sorted(ids) == list(range(40)) and list(ids) != list(range(40)), ids
            for b in got:
                assert b["x"].tolist() == [[i, -i] if i % 2 else [0.5, 0.25] for i in b["id"]], b
                assert list(b["tags"].values) == [b"t%d" % k for i in b["id"] for k in range(i % 3)], b["tags"]
            assert len(names) == 4


def test_fixed_length_records(cluster):
    with Folder() as folder:
        content = b"head" + b"".join(struct.pack("<i", i) for i in range(5)) + b"foot"
        names = [folder("plain", content), folder("packed", zlib.compress(content))]
        for name, encoding in zip(names, ("", "ZLIB")):
            with cluster.graph():
                queue = tf.FIFOQueue(3, tf.string, ())
                reader = tf.FixedLengthRecordReader(4, header_bytes=4, footer_bytes=4, encoding=encoding)
                read = reader.read_up_to(queue, 3)
                with cluster.session() as sess:
                    sess.run(queue.enqueue([name]))
                    sess.run(queue.close())
                    values = [v for _ in range(2) for v in sess.run(read)[1]]
                    assert [struct.unpack("<i", v)[0] for v in values] == list(range(5)), values
                    with raises(tf.errors.OutOfRangeError, "is closed and has insufficient elements (requested 1, current size 0)"):
                        sess.run(read)


def test_a_read_waits_for_its_file(cluster):
    queue = tf.FIFOQueue(3, tf.string, ())
    read = tf.IdentityReader().read(queue)
    name = tf.placeholder(tf.string, ())
    put = queue.enqueue(name)
    with cluster.session() as sess:
        with raises(tf.errors.DeadlineExceededError):
            sess.run(read, options=tf.RunOptions(timeout_in_ms=200))
        waiting = Background(lambda: sess.run(read))
        sess.run(put, {name: "a"})
        assert list(waiting.result()) == [b"a", b"a"]


def test_readers_are_shared_by_name(cluster):
    """By both kinds of handle, from session to session, with their state."""
    with Folder() as folder:
        names = [folder(n, n.encode()) for n in "abc"]
        with tf.device("/job:ps"):
            old = RAW.WholeFileReader(shared_name=cluster.name)
            queue = RAW.FIFOQueue(component_types=[tf.string], shapes=[()], shared_name=cluster.name)
            more = RAW.QueueEnqueueMany(handle=queue, components=[tf.constant(names)])
            read = RAW.ReaderRead(reader_handle=old, queue_handle=queue)
            new = RAW.WholeFileReaderV2(shared_name=cluster.name)
            produced = RAW.ReaderNumRecordsProducedV2(reader_handle=new)
            saved = RAW.ReaderSerializeStateV2(reader_handle=new)
            state = tf.placeholder(tf.string, ())
            restore = RAW.ReaderRestoreState(reader_handle=old, state=state)
            reset = RAW.ReaderReset(reader_handle=old)
        cluster.run(more)
        for n in "ab":
            assert cluster.run(read).value == n.encode()
        assert cluster.run(produced) == 2
        kept = cluster.run(saved)
        cluster.run(reset)
        assert cluster.run(produced) == 0
        cluster.run(restore, {state: kept})
        assert cluster.run(produced) == 2
        with raises(tf.errors.InvalidArgumentError, "Could not parse state for WholeFileReader"):
            cluster.run(restore, {state: b"\x22\x05x"})
        assert cluster.run(produced) == 0


def test_files(cluster):
    with Folder() as folder:
        name, content = tf.placeholder(tf.string), tf.placeholder(tf.string)
        written, read, found = tf.io.write_file(name, content), tf.io.read_file(name), tf.io.matching_files(name)
        path = os.path.join(folder.path, "new", "file")
        with cluster.session() as sess:
            sess.run(written, {name: path, content: b"\x00bytes"})
            assert sess.run(read, {name: path}) == b"\x00bytes"
            assert list(sess.run(found, {name: os.path.join(folder.path, "*", "f[a-k]le")})) == [path.encode()]
            assert not len(sess.run(found, {name: os.path.join(folder.path, "*", "x*")}))
            with raises(tf.errors.NotFoundError, "/gone; No such file or directory"):
                sess.run(read, {name: os.path.join(folder.path, "gone")})
            with raises(tf.errors.FailedPreconditionError, folder.path + "; Is a directory"):
                sess.run(read, {name: folder.path})
            with raises(tf.errors.InvalidArgumentError, "Input filename tensor must be scalar, but had shape: [2]"):
                sess.run(read, {name: ["a", "b"]})


def test_record_input(cluster):
    with Folder() as folder:
        for i in range(5):
            folder.records("f%d" % i, [b"%d-%d" % (i, j) for j in range(8)])
        records = RAW.RecordInput(file_pattern=os.path.join(folder.path, "f*"), file_buffer_size=10, file_parallelism=2, batch_size=4)
        with cluster.session() as sess:
            for _ in range(2):
                epoch = [r for _ in range(10) for r in sess.run(records)]
                assert sorted(epoch) == sorted(b"%d-%d" % (i, j) for i in range(5) for j in range(8)), epoch
        with raises(tf.errors.NotFoundError, "Found no files at /none"):
            cluster.run(RAW.RecordInput(file_pattern="/none", batch_size=1))
