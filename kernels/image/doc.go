// Package image holds the ops on images: PNG, and colors.
package image
