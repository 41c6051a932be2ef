"""What there is: files, pyramids and tile matrix sets, composed to images."""
