// Package image holds the ops on images: PNG, colours, other sizes, and boxes.
package image
