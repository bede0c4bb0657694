// Package selection implements the datasets that choose, order or combine the elements of others and call no function: take and shard,
// shuffle, zip and concatenate, unique.
package selection
