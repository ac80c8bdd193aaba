"""Where runs are kept, so that none of their paid calls is lost or paid twice."""
