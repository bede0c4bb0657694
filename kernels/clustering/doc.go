// Package clustering holds the ops of k-means: the choice of first centers and the nearest ones.
package clustering
