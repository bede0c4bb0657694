"""Asks which tasks of a cluster a program of TensorFlow 2 has lost, by the coordination service of the cluster's first parameter server."""
import tensorflow as tf
from tensorflow.python.eager import context

import troupe

cluster = troupe.LocalCluster(ps=1, worker=2)
JOBS = [("worker", 2), ("ps", 1)]
context.context().configure_coordination_service(
    service_type="standalone", service_leader="/job:ps/replica:0/task:0", heartbeat_timeout_in_ms=2000, allow_new_incarnation_to_reconnect=True
)
strategy = cluster.strategy()
assert context.context().get_task_states(JOBS) == [None] * 3
print("all are there")

cluster.task("worker:1").kill()
states = context.context().get_task_states(JOBS)
assert states[0] is None and states[2] is None, states
assert isinstance(states[1], tf.errors.UnavailableError) and "/job:worker/replica:0/task:1" in states[1].message, states
assert "type.googleapis.com/tensorflow.CoordinationServiceError" in states[1].experimental_payloads, states[1].experimental_payloads
print("one is lost")

cluster.task("worker:1").restart()
assert context.context().get_task_states(JOBS)[1] is not None  # it does not know this program
context.context().update_server_def(context.get_server_def())
assert context.context().get_task_states(JOBS) == [None] * 3
print("it is back")
