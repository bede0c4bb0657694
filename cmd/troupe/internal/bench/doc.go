// Package bench measures the links of a cluster with the steps of an ordinary client. For comparison, it also measures
// the machine without a cluster.
package bench
