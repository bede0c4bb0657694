// Package list holds the ops on lists, maps, optionals and composites of tensors.
//
// The values are those of package variant. One that nobody else can see is changed in place.
package list
