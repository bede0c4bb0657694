// Package example turns serialized tf.train.Example and SequenceExample messages into tensors.
//
// It reads the wire format itself: one scan finds the wanted features of a message, their values are
// counted where they lie, the results are allocated at their exact sizes, and the values go straight
// into them. Features that nobody asked for are skipped unread. What a message means is what protocol
// buffers say (the last entry of a key counts, messages may be concatenated, lists may be packed or not);
// what the results look like, and what errors say, follows TensorFlow's
// core/util/example_proto_fast_parsing.cc and core/kernels/example_parsing_ops.cc.
package example
