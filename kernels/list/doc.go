// Package list holds the ops on lists, maps, optionals and composites of tensors.
//
// The values are those of package variant. A value that nothing else refers to is changed in place.
package list
