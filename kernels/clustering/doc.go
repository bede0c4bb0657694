// Package clustering implements the ops of k-means: choosing initial centres and finding the nearest ones.
package clustering
