// Package dtypes names the sets of element types that rows of a table support.
package dtypes
