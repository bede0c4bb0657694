// Package launch builds calls of device functions: their names by element type, their grids and parameters.
package launch
