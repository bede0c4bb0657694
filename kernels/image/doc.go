// Package image holds the ops on images: PNG, colours, and other sizes.
package image
