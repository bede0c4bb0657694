"""Checkpoints: written here and read by TensorFlow, written by TensorFlow and read here."""
import os
import tempfile
import threading

from support import np, raises, same, tf

TYPES = [np.float32, np.float64, np.float16, tf.bfloat16.as_numpy_dtype, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
         np.uint64, np.bool_, np.complex64, np.complex128]
V1_TYPES = [np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.bool_, np.complex64, np.complex128]


def values(types):
    noise = np.random.default_rng(1).normal(size=[3, 5]) * 100
    named = {"t/%s" % np.dtype(t).name: noise.astype(t) for t in types}
    named["text"] = np.array([b"", b"a\0b", b"x" * 100000], object)
    named["none"] = np.zeros([0, 4], np.float32)
    named["scalar"] = np.float32(7)
    return named


def save(prefix, named):
    return tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(named), shape_and_slices=[""] * len(named), tensors=[tf.constant(v) for v in named.values()])


def restore(prefix, named):
    return tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=list(named), shape_and_slices=[""] * len(named), dtypes=[tf.as_dtype(np.asarray(v).dtype) for v in named.values()])


def content(path):
    with open(path, "rb") as f:
        return f.read()


def same_files(a, b):
    """The files of two prefixes are alike, byte for byte."""
    for ending in (".index", ".data-00000-of-00001"):
        assert content(a + ending) == content(b + ending), ending


def test_both_ways(cluster):
    named = values(TYPES)
    with tempfile.TemporaryDirectory() as d:
        ours, theirs = os.path.join(d, "ours"), os.path.join(d, "theirs")
        with tf.device("/job:ps"):
            save_here, restore_here = save(ours, named), restore(theirs, named)
        cluster.run(save_here)
        with tf.Graph().as_default(), tf.Session() as local:
            local.run(save(theirs, named))
            for got, want in zip(local.run(restore(ours, named)), named.values()):
                same(got, want)
        for got, want in zip(cluster.run(restore_here), named.values()):
            same(got, want)
        same_files(ours, theirs)
        reader = tf.train.load_checkpoint(ours)
        assert set(reader.get_variable_to_shape_map()) == set(named)
        same(reader.get_tensor("t/int64"), named["t/int64"])


def test_format_v1_both_ways(cluster):
    named = values(V1_TYPES)
    with tempfile.TemporaryDirectory() as d:
        ours, theirs = os.path.join(d, "ours"), os.path.join(d, "theirs")

        def save_v1(path):
            return tf.raw_ops.Save(filename=path, tensor_names=list(named), data=[tf.constant(v) for v in named.values()])

        def restore_v1(path):
            return [tf.raw_ops.Restore(file_pattern=path, tensor_name=n, dt=tf.as_dtype(np.asarray(v).dtype)) for n, v in named.items()]

        cluster.run(save_v1(ours))
        with tf.Graph().as_default(), tf.Session() as local:
            local.run(save_v1(theirs))
            for got, want in zip(local.run(restore_v1(ours)), named.values()):
                same(got, want)
        assert content(ours) == content(theirs)
        for fetch in (restore_v1(theirs), restore(theirs, named)):
            for got, want in zip(cluster.run(fetch), named.values()):
                same(got, want)


def partitioned(parts, resource):
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(parts), use_resource=resource):
        return tf.get_variable("v", [7, 3], initializer=tf.zeros_initializer())


def test_partitions_are_saved_and_restored_in_others(cluster):
    want = np.arange(21, dtype=np.float32).reshape(7, 3)
    with tempfile.TemporaryDirectory() as d:
        for parts, version in ((3, tf.train.SaverDef.V2), (1, tf.train.SaverDef.V2), (2, tf.train.SaverDef.V1)):
            path = os.path.join(d, "model%d" % parts)
            with cluster.graph():
                v = partitioned(parts, resource=parts == 3)
                saver = tf.train.Saver([v], sharded=parts > 1, write_version=version)
                with cluster.session() as sess:
                    at = 0
                    for p in v:
                        rows = p.shape[0]
                        sess.run(p.assign(want[at:at + rows]).op)
                        at += rows
                    path = saver.save(sess, path)
            for others in (1, 2, 5):
                with cluster.graph():
                    v = partitioned(others, resource=True)
                    saver = tf.train.Saver([v])
                    with cluster.session() as sess:
                        saver.restore(sess, path)
                        same(sess.run(tf.convert_to_tensor(v)), want)


def test_savers_options(cluster):
    with tempfile.TemporaryDirectory() as d:
        a = tf.Variable([1.0, 2.0, 3.0, 4.0], name="a")
        b = tf.Variable(5, name="b", use_resource=True)
        step = tf.train.get_or_create_global_step()
        saver = tf.train.Saver(max_to_keep=2, save_relative_paths=True)
        with cluster.session() as sess:
            sess.run(tf.global_variables_initializer())
            for i in range(4):
                sess.run(step.assign(i).op)
                path = saver.save(sess, os.path.join(d, "model"), global_step=step)
        assert [os.path.basename(p) for p in saver.last_checkpoints] == ["model-2", "model-3"]
        assert sorted(f for f in os.listdir(d) if f.endswith(".index")) == ["model-2.index", "model-3.index"]
        assert tf.train.latest_checkpoint(d) == path
        assert not [f for f in os.listdir(d) if "temp" in f]
        with cluster.graph():
            square = tf.get_variable("a", [2, 2], use_resource=True)
            with cluster.session() as sess:
                tf.train.Saver([square], reshape=True).restore(sess, path)
                same(sess.run(square), np.float32([[1, 2], [3, 4]]))
        with cluster.graph(), tf.device("/job:ps"):
            square = tf.get_variable("a", [2, 2], use_resource=False)
            with cluster.session() as sess:
                with raises(tf.errors.InvalidArgumentError, "Assign requires shapes of both tensors to match. lhs shape= [2,2] rhs shape= [4]"):
                    tf.train.Saver([square]).restore(sess, path)
        with cluster.graph():
            again = tf.train.import_meta_graph(path + ".meta")
            with cluster.session() as sess:
                again.restore(sess, path)
                assert sess.run("b/Read/ReadVariableOp:0") == 5
        with cluster.graph():
            tf.train.init_from_checkpoint(path, {"a": tf.get_variable("other", [4])})
            with cluster.session() as sess:
                sess.run(tf.global_variables_initializer())
                same(sess.run("other:0"), np.float32([1, 2, 3, 4]))


def test_what_is_not_there_or_damaged(cluster):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "model")
        cluster.run(save(path, {"x": np.float32([1, 2, 3]), "y": np.int32([1])}))
        with raises(tf.errors.NotFoundError, "Key z not found in checkpoint " + path):
            cluster.run(restore(path, {"z": np.float32(1)}))
        with raises(tf.errors.InvalidArgumentError, "tensor_name = y; expected dtype float does not equal original dtype int32"):
            cluster.run(restore(path, {"y": np.float32(1)}))
        with raises(tf.errors.NotFoundError, "Failed to find any matching files for " + path + "x"):
            cluster.run(restore(path + "x", {"y": np.float32(1)}))
        data = path + ".data-00000-of-00001"
        whole = content(data)
        with open(data, "wb") as f:
            f.write(whole[:4])
        with raises(tf.errors.DataLossError, data):
            cluster.run(restore(path, {"x": np.float32(1)}))
        with open(data, "wb") as f:
            f.write(whole[:-1] + b"?")
        with raises(tf.errors.DataLossError, "Checksum does not match"):
            cluster.run(restore(path, {"y": np.int32(1)}))
        with open(path + ".index", "r+b") as f:
            f.write(b"?")
        with raises(tf.errors.DataLossError, "block checksum mismatch"):
            cluster.run(restore(path, {"y": np.int32(1)}))
        os.remove(data)


def test_savers_of_one_prefix_do_not_mix(cluster):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "model")
        number = tf.placeholder(tf.int64, [])
        with tf.device("/job:worker/task:1"):
            many = tf.fill([1000], number)
        saving = []
        for device in ("/job:ps", "/job:worker/task:0", "/job:worker/task:1"):
            with tf.device(device):
                saving.append(tf.raw_ops.SaveV2(prefix=path, tensor_names=["a", "b"], shape_and_slices=["", ""], tensors=[many, many]))
        restored = tf.raw_ops.RestoreV2(prefix=path, tensor_names=["a", "b"], shape_and_slices=["", ""], dtypes=[tf.int64, tf.int64])
        with cluster.session() as sess:

            def work(i):
                for k in range(5):
                    sess.run(saving[i], {number: 10 * i + k})

            threads = [threading.Thread(target=work, args=[i]) for i in range(3)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            a, b = sess.run(restored)
            assert a.min() == a.max() == b.min() == b.max() and a[0] % 10 == 4
