// Package image holds the ops on images: files of them, colours, other sizes, parts of images, transforms, and boxes.
package image
