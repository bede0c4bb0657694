// Package bench measures what the links of a cluster do, by steps of an ordinary client, and what the machine does
// without a cluster, so that the numbers can be compared.
package bench
