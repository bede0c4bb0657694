"""A kernel faults on the card: FAKE_CUDA_FAIL says when."""
from support import np, tf


def test_a_fault_costs_the_session_alone(cluster):
    with tf.device("/device:GPU:0"):
        v = tf.get_variable("v", [100], initializer=tf.zeros_initializer())
        add = tf.assign_add(v, tf.ones([100]) * 0.5)
    reset = tf.global_variables_initializer()
    failures, done = [], 0
    deadline = 200
    with cluster.session() as sess:
        sess.run(reset)
        while not failures and deadline:
            deadline -= 1
            try:
                sess.run(add)
            except tf.errors.OpError as e:
                failures.append(e)
    assert isinstance(failures[0], (tf.errors.UnavailableError, tf.errors.AbortedError)), failures[0]
    assert "GPU:0" in str(failures[0]) and "started anew" in str(failures[0]), failures[0]
    tries = 1000  # MonitoredTrainingSession tries as often as it takes until the card has been started anew
    while done < 2 and tries:
        tries -= 1
        try:
            with cluster.session() as sess:
                sess.run(reset)
                for i in range(20):
                    assert (sess.run(add) == 0.5 * (i + 1)).all()
                done += 1
        except (tf.errors.AbortedError, tf.errors.UnavailableError, tf.errors.FailedPreconditionError) as e:
            failures.append(e)
    assert done == 2, str(failures[-1])
