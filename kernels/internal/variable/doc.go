// Package variable reads and updates variables under their lock.
package variable
