// Package clustering holds the ops of k-means: the choice of first centres and the nearest ones.
package clustering
