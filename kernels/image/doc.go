// Package image holds the ops on images: PNG, and colours.
package image
