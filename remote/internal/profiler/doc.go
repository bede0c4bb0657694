// Package profiler serves tensorflow.ProfilerService, which TensorFlow's tools ask for profiles: trace and monitor of
// tf.profiler.experimental.client. It makes profiles from traces of the cluster.
package profiler
