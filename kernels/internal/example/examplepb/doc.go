// Package examplepb holds tf.train.Example and SequenceExample as protobuf messages: for what is not worth
// reading off the wire by hand, such as JSON, and for tests.
package examplepb
