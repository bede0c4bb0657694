// Package list implements the ops on lists, maps, optionals and composites of tensors.
//
// The values are those of package variant. A value without other references is changed in place.
package list
