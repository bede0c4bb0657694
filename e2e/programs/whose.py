# usage: whose.py TARGET_0 TARGET_1 FOLDER     prints whose resources are that ask for no task
# Two workers, each with a session on its own server, have local variables and read files of their own, as programs of
# between-graph replication do: with a device that names no task, and with none.
import os
import sys

import tensorflow as tf

targets, folder = sys.argv[1:3], sys.argv[3]


def counters(name, device):
    values = []
    sessions = []
    for k, target in enumerate(targets):
        with tf.Graph().as_default() as g, tf.device(device):
            n = tf.get_local_variable(name, initializer=100 * k)
            session = tf.Session(target, graph=g)
            session.run(n.initializer)
            sessions.append((session, n.assign_add(1)))
    for session, add in sessions:
        values.append(str(session.run(add)))
        session.close()
    return "+".join(values)


def files(k, target, device):
    """The lines that worker k reads of its own two files, once."""
    names = []
    for i in range(2):
        names.append(os.path.join(folder, "%d-%d" % (k, i)))
        with open(names[-1], "w") as f:
            f.write("worker %d file %d\n" % (k, i))
    with tf.Graph().as_default(), tf.device(device):
        queue = tf.train.string_input_producer(names, num_epochs=1, shuffle=False, shared_name="names" if device else "anywhere")
        _, line = tf.TextLineReader().read(queue)
        read = []
        with tf.Session(target) as session:
            session.run(tf.local_variables_initializer())
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coordinator)
            try:
                while True:
                    read.append(session.run(line).decode())
            except tf.errors.OutOfRangeError:
                pass
            coordinator.request_stop()
            coordinator.join(threads)
            # A queue stays closed: the next run needs another one.
            session.run([tf.raw_ops.DestroyResourceOp(resource=r.queue.queue_ref) for r in tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)])
    return "own" if read == ["worker %d file %d" % (k, i) for i in range(2)] else "%d lines" % len(read)


found = [
    counters("at_cpu", "/cpu:0"),
    counters("anywhere", None),
    *(files(k, target, "/cpu:0") for k, target in enumerate(targets)),
]
if "anywhere" in sys.argv[4:]:
    found += [files(k, target, None) for k, target in enumerate(targets)]
print(" ".join(found))
