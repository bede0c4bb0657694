// Package image holds the ops on images: PNG, colours, other sizes, parts of images, transforms, and boxes.
package image
