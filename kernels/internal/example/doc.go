// Package example turns serialized tf.train.Example and SequenceExample messages into tensors.
//
// It reads the wire format itself. One scan finds the requested features of a message, their values are counted in place, the results are
// allocated at their exact sizes, and the values are decoded straight into them. Other features are skipped unread. Messages are
// interpreted as protocol buffers define: the last entry of a key counts, messages may be concatenated, and lists may be packed or not. The
// results and the error texts follow TensorFlow's core/util/example_proto_fast_parsing.cc and core/kernels/example_parsing_ops.cc.
package example
