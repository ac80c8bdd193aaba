from .report import report_html as report_html
from .report import verify_report as verify_report
