// Package examplepb holds tf.train.Example and SequenceExample as protobuf messages, for tests and for code
// that need not be fast, such as JSON.
package examplepb
