// Package image implements the ops on images: reading and writing files, colours, resizing, cropping, transforms, and boxes.
package image
