// Package dataflow holds the ops on queues, barriers, accumulators, staging areas, mutexes, stacks and tensor arrays.
//
// The resources themselves are in packages queues and containers. An op that must wait registers a callback with kernels.Wait and holds no
// thread.
package dataflow
