// Package profiler serves tensorflow.ProfilerService, which TensorFlow's tools ask for profiles: tf.profiler.experimental.client's
// trace and monitor. It makes them of traces of the cluster.
package profiler
